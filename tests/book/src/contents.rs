//! The book's table of contents, `docs/SUMMARY.md`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::page::BookPage;

const FILE: &str = "docs/SUMMARY.md";

/// The table of contents.
#[derive(Debug)]
pub struct BookContents {
    repository: PathBuf,
    file: BookPage,
    pages: Vec<PathBuf>,
}

impl BookContents {
    /// Read the table of contents of this repository.
    ///
    /// # Errors
    /// It cannot be read, or a link in it leads out of the repository.
    pub fn load(repository: &Path) -> Result<Self> {
        let file = BookPage::load(repository, Path::new(FILE))?;
        let mut pages = Vec::new();
        for link in file.links() {
            let page = beside(&file.path, &link.target);
            pages.push(page.with_context(|| {
                format!("{FILE}:{}: {} leads out of the repository", link.line, link.target)
            })?);
        }
        ensure!(!pages.is_empty(), "{FILE} lists no page");
        Ok(Self { repository: repository.to_owned(), file, pages })
    }

    /// Paths of the pages in their order, relative to the repository's root.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.pages
    }

    /// All pages, in their order.
    ///
    /// # Errors
    /// A page cannot be read.
    pub fn pages(&self) -> Result<Vec<BookPage>> {
        self.pages.iter().map(|page| BookPage::load(&self.repository, page)).collect()
    }

    /// The table of contents with links that are relative to the repository's root, for a book that is made there.
    #[must_use]
    pub fn for_the_root(&self) -> String {
        let targets = self.file.links().into_iter().zip(&self.pages);
        targets.fold(self.file.text().to_owned(), |text, (link, page)| {
            text.replace(&format!("]({})", link.target), &format!("]({})", page.display()))
        })
    }

    /// Copy the pages, and the files that they lead to, into this folder, with the table of contents: the source of a book
    /// whose links lead to the same files as in the repository.
    ///
    /// # Errors
    /// A page or a linked file does not exist, or cannot be copied.
    pub fn collect(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let mut files = self.pages.clone();
        for page in self.pages()? {
            let local = page.links().into_iter().filter_map(|link| link.file().map(ToOwned::to_owned));
            files.extend(local.filter_map(|target| beside(&page.path, &target)));
        }
        files.sort();
        files.dedup();
        for file in files.iter().filter(|file| self.repository.join(file).is_file()) {
            let copy = folder.join(file);
            let parent = copy.parent().unwrap_or(folder);
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
            fs::copy(self.repository.join(file), &copy)
                .with_context(|| format!("copying {}", file.display()))?;
        }
        let summary = folder.join("SUMMARY.md");
        fs::write(&summary, self.for_the_root()).with_context(|| format!("writing {}", summary.display()))
    }
}

/// Path of a link's target, relative to the repository's root; `None` for one outside.
#[must_use]
pub fn beside(page: &Path, target: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_resolved_beside_their_page() {
        let page = Path::new("docs/usage/install.md");
        for (target, expected) in [
            ("runbook.md", Some("docs/usage/runbook.md")),
            ("../glossary.md", Some("docs/glossary.md")),
            ("../../README.md", Some("README.md")),
            ("../../../outside.md", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(beside(page, target), expected.map(PathBuf::from), "{target}");
        }
    }
}
