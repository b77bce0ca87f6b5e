//! Blocks of code, and the commands in them.

use std::ops::Range;

/// Beginning of the comment that gives the reason for commands that do not run.
const REASON: &str = "<!-- not run: ";

/// Place in which the commands of a block run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandPlace {
    /// In a folder with a tree, a sysroot, an image and the files of the page.
    Folder,
    /// On a booted host.
    Host,
    /// Nowhere.
    Nowhere,
}

/// One command of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCommand {
    pub text: String,
    /// Exit code that the page shows.
    pub exit_code: i32,
}

/// One block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeBlock {
    /// Text behind the fence; `None` for a block that is indented only.
    pub info: Option<String>,
    /// Number of the block's first line in the page, from 1.
    pub line: usize,
    /// Lines between the fences, without their indentation.
    pub lines: Vec<String>,
    /// Place of the whole block in the page, in bytes.
    pub(crate) range: Range<usize>,
    /// Spaces before the fences.
    pub(crate) indentation: usize,
    /// Line above the block.
    pub(crate) above: String,
}

impl CodeBlock {
    /// Language of the block.
    #[must_use]
    pub fn language(&self) -> &str {
        let info = self.info.as_deref().unwrap_or_default();
        info.split([' ', ',']).next().unwrap_or_default()
    }

    /// Name of the file that the block shows.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.info.as_deref()?.split(' ').find_map(|word| word.strip_prefix("file="))
    }

    /// Place in which the block's commands run; `None` for a block without commands.
    #[must_use]
    pub fn place(&self) -> Option<CommandPlace> {
        match self.info.as_deref()? {
            "console" => Some(CommandPlace::Folder),
            "console,host" => Some(CommandPlace::Host),
            "console,ignore" => Some(CommandPlace::Nowhere),
            _ => None,
        }
    }

    /// Reason for commands that do not run.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.above.trim().strip_prefix(REASON)?.strip_suffix(" -->").filter(|reason| !reason.is_empty())
    }

    /// Commands of the block. A line that ends in a backslash goes on with the next one.
    #[must_use]
    pub fn commands(&self) -> Vec<ShownCommand> {
        let mut commands: Vec<ShownCommand> = Vec::new();
        let mut is_open = false;
        for line in &self.lines {
            let begun = line.strip_prefix("$ ");
            match (begun, commands.last_mut()) {
                (Some(text), _) => commands.push(ShownCommand { text: text.to_owned(), exit_code: 0 }),
                (None, Some(command)) if is_open => {
                    command.text.push('\n');
                    command.text.push_str(line);
                }
                (None, Some(command)) => {
                    if let Some(code) = line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
                        command.exit_code = code;
                    }
                }
                (None, None) => {}
            }
            is_open = (begun.is_some() || is_open) && line.ends_with('\\');
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str, lines: &str) -> CodeBlock {
        CodeBlock {
            info: Some(info.to_owned()),
            line: 1,
            lines: lines.lines().map(ToOwned::to_owned).collect(),
            range: 0..0,
            indentation: 0,
            above: "<!-- not run: needs a cluster -->".to_owned(),
        }
    }

    #[test]
    fn commands_have_the_exit_code_that_the_page_shows() {
        let shown = block("console", "$ a b\nout\n$ c \\\n  d\n? 2\nout\n$ e\n");
        let commands: Vec<_> =
            shown.commands().into_iter().map(|command| (command.text, command.exit_code)).collect();
        let expected = [("a b", 0), ("c \\\n  d", 2), ("e", 0)].map(|(text, code)| (text.to_owned(), code));
        assert_eq!(commands, expected);
    }

    #[test]
    fn words_behind_the_fence_name_place_and_file() {
        for (info, place) in [
            ("console", Some(CommandPlace::Folder)),
            ("console,host", Some(CommandPlace::Host)),
            ("console,ignore", Some(CommandPlace::Nowhere)),
            ("yaml", None),
        ] {
            assert_eq!(block(info, "").place(), place, "{info}");
        }
        let file = block("yaml file=a.yaml", "");
        assert_eq!((file.language(), file.file(), file.place()), ("yaml", Some("a.yaml"), None));
        assert_eq!(file.reason(), Some("needs a cluster"));
    }
}
