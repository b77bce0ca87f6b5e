//! The commit that is tested.

use std::process::Stdio;

use crate::part_number::PartNumber;
use crate::project_tree::ProjectTree;

/// Number of shares of the long tests and of the scenarios on virtual machines, of which a full run takes one.
pub const SHARES: u32 = 18;

/// The hash of the checked-out commit, and the state of the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedCommit {
    hash: String,
    is_modified: bool,
}

impl TestedCommit {
    /// Read the commit from git; `None` if the sources are not a git work tree or git is not installed.
    pub fn of(tree: &ProjectTree) -> Option<Self> {
        let hash = git(tree, &["rev-parse", "HEAD"])?;
        let is_modified = git(tree, &["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
        Some(Self { hash, is_modified })
    }

    /// Name under which results are kept: the hash, marked if the work tree differs from the commit.
    pub fn name(&self) -> String {
        let mark = if self.is_modified { "-modified" } else { "" };
        format!("{}{mark}", self.hash)
    }

    /// Return true if the work tree differs from the commit.
    pub fn is_modified(&self) -> bool {
        self.is_modified
    }

    /// Choose the share that a full run takes; outside a git work tree the first one.
    pub fn chosen_share(tree: &ProjectTree) -> PartNumber {
        let share = Self::of(tree).and_then(|commit| commit.share(SHARES));
        share.or_else(|| PartNumber::all(SHARES).next()).unwrap_or(PartNumber::WHOLE)
    }

    /// Choose one of `items` for a run, another one for each commit.
    pub fn chosen_item<'i, T>(tree: &ProjectTree, items: &'i [T]) -> Option<&'i T> {
        let count = u32::try_from(items.len()).ok()?;
        let share = Self::of(tree).and_then(|commit| commit.share(count));
        items.get(share.map_or(0, |share| share.index() as usize - 1))
    }

    /// Choose one of `count` shares: the first eight digits of the hash, modulo `count`.
    fn share(&self, count: u32) -> Option<PartNumber> {
        let number = u32::from_str_radix(self.hash.get(..8)?, 16).ok()?;
        PartNumber::new(number.checked_rem(count)? + 1, count).ok()
    }
}

fn git(tree: &ProjectTree, arguments: &[&str]) -> Option<String> {
    let mut git = std::process::Command::new("git");
    let output = git.args(arguments).current_dir(tree.root()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(hash: &str) -> TestedCommit {
        TestedCommit { hash: hash.to_owned(), is_modified: false }
    }

    #[test]
    fn share_is_chosen_by_the_hash() {
        let share = |hash| commit(hash).share(6).map(|share| share.to_string());
        assert_eq!(share("00000000ffff").as_deref(), Some("1/6"));
        assert_eq!(share("00000005ffff").as_deref(), Some("6/6"));
        assert_eq!(share("00000006ffff").as_deref(), Some("1/6"));
        assert_eq!(share("ffffffffffff").as_deref(), Some("4/6"));
        assert_eq!(share("no hash"), None);
    }

    #[test]
    fn modified_work_tree_has_its_own_name() {
        assert_eq!(commit("12ab").name(), "12ab");
        assert_eq!(TestedCommit { is_modified: true, ..commit("12ab") }.name(), "12ab-modified");
    }
}
