//! One page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::block::CodeBlock;

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink {
    /// Number of the line with the link, from 1.
    pub line: usize,
    pub target: String,
}

impl PageLink {
    /// File that the link leads to, relative to its page; `None` for another place on the network or in the page.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        let file = self.target.split('#').next().unwrap_or_default();
        let is_local = !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:");
        is_local.then_some(file)
    }

    /// Heading that the link leads to.
    #[must_use]
    pub fn anchor(&self) -> Option<&str> {
        self.target.split_once('#').map(|(_, anchor)| anchor)
    }
}

/// A page and its text.
#[derive(Debug, Clone)]
pub struct BookPage {
    /// Path relative to the repository's root.
    pub path: PathBuf,
    text: String,
}

impl BookPage {
    /// Read the page at this path, which is relative to the repository's root.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn load(repository: &Path, path: &Path) -> Result<Self> {
        let text = fs::read_to_string(repository.join(path))
            .with_context(|| format!("reading the page {}", path.display()))?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// Make a page of this text.
    #[must_use]
    pub fn new(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Text of the page.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Blocks of code, in their order.
    #[must_use]
    pub fn blocks(&self) -> Vec<CodeBlock> {
        let mut blocks = Vec::new();
        let mut events = self.events().into_iter();
        while let Some((event, range)) = events.next() {
            let Event::Start(Tag::CodeBlock(kind)) = event else { continue };
            let mut shown = String::new();
            for (event, _) in events.by_ref() {
                match event {
                    Event::Text(text) => shown.push_str(&text),
                    _ => break,
                }
            }
            let before = self.text.get(..range.start).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |end| end + 1);
            blocks.push(CodeBlock {
                info: match kind {
                    CodeBlockKind::Fenced(info) => Some(info.to_string()),
                    CodeBlockKind::Indented => None,
                },
                line: line_number(before),
                lines: shown.lines().map(ToOwned::to_owned).collect(),
                indentation: range.start - line_start,
                above: before
                    .get(..line_start)
                    .unwrap_or_default()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .to_owned(),
                range,
            });
        }
        blocks
    }

    /// Links, in their order.
    #[must_use]
    pub fn links(&self) -> Vec<PageLink> {
        let links = self.events().into_iter().filter_map(|(event, range)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = line_number(self.text.get(..range.start).unwrap_or_default());
                Some(PageLink { line, target: dest_url.to_string() })
            }
            _ => None,
        });
        links.collect()
    }

    /// Names by which links reach the headings: in lower case, with a dash for each space, without punctuation.
    #[must_use]
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        let mut heading: Option<String> = None;
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    // Of equal headings, the later ones are numbered.
                    let is_free = |name: &String| !anchors.contains(name);
                    let mut names = std::iter::once(name.clone()).chain((1..).map(|n| format!("{name}-{n}")));
                    let free = names.find(is_free);
                    anchors.extend(free);
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        anchors
    }

    /// The page with other lines in this block.
    #[must_use]
    pub fn with_block(&self, block: &CodeBlock, lines: &[String]) -> Self {
        let indentation = " ".repeat(block.indentation);
        let mut text = format!("```{}\n", block.info.as_deref().unwrap_or_default());
        for line in lines {
            let line = format!("{indentation}{line}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push_str(&indentation);
        text.push_str("```");
        let mut page = self.text.clone();
        page.replace_range(block.range.clone(), &text);
        Self { path: self.path.clone(), text: page }
    }

    fn events(&self) -> Vec<(Event<'_>, std::ops::Range<usize>)> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter().collect()
    }
}

fn line_number(before: &str) -> usize {
    before.matches('\n').count() + 1
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# A `b` c: d\n\n1. item\n\n   ```console\n   $ a\n   out\n   ```\n\n[x](y.md#z)\n\n# a b c d\n";

    fn page() -> BookPage {
        BookPage::new(Path::new("page.md"), TEXT)
    }

    #[test]
    fn blocks_in_lists_lose_and_regain_their_indentation() {
        let page = page();
        let [block] = &page.blocks()[..] else { panic!("one block") };
        assert_eq!((block.line, block.lines.clone()), (5, vec!["$ a".to_owned(), "out".to_owned()]));
        assert_eq!(page.with_block(block, &block.lines).text(), TEXT);
        let changed = page.with_block(block, &["$ b".to_owned()]);
        assert!(changed.text().contains("\n   ```console\n   $ b\n   ```\n\n[x]"), "{}", changed.text());
    }

    #[test]
    fn equal_headings_have_numbered_anchors() {
        let expected = ["a-b-c-d", "a-b-c-d-1"].map(ToOwned::to_owned);
        assert_eq!(page().anchors(), BTreeSet::from(expected));
        assert_eq!(page().links(), [PageLink { line: 10, target: "y.md#z".to_owned() }]);
    }
}
