//! Links between the pages, and the table of contents.

use std::fs;
use std::path::{Path, PathBuf};

use book::{BookContents, BookPage, beside};
use testbed::repository;

/// Folders whose pages all belong to the book.
const FOLDERS: [&str; 5] = ["docs", "docs/start", "docs/usage", "docs/reference", "docs/development"];

/// A fault of a page, as `page:line: fault`.
fn fault(page: &BookPage, line: usize, text: &str) -> String {
    format!("{}:{line}: {text}", page.path.display())
}

#[test]
fn table_of_contents_lists_every_page_once() {
    let mut listed: Vec<PathBuf> = BookContents::load(&repository()).unwrap().paths().to_vec();
    let mut present = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|ending| ending == "md") && name != "SUMMARY.md" {
                present.push(Path::new(folder).join(name));
            }
        }
    }
    let missing: Vec<_> = present.iter().filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
    let number = listed.len();
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), number, "docs/SUMMARY.md lists a page twice");
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let contents = BookContents::load(&repository()).unwrap();
    let mut faults = Vec::new();
    for page in &contents.pages().unwrap() {
        for link in page.links() {
            if link.target.contains("://") {
                continue;
            }
            let target = match link.file() {
                Some(file) => beside(&page.path, file),
                None => Some(page.path.clone()),
            };
            let Some(target) = target.filter(|target| repository().join(target).exists()) else {
                faults.push(fault(page, link.line, &format!("{} does not exist", link.target)));
                continue;
            };
            let Some(anchor) = link.anchor() else { continue };
            // Pages of the repository that are not in the book have headings as well.
            let linked = BookPage::load(&repository(), &target).unwrap();
            if !linked.anchors().contains(anchor) {
                faults.push(fault(page, link.line, &format!("{} has no such heading", link.target)));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn texts_outside_of_the_book_name_pages_that_exist() {
    let name = |text: &str| -> Vec<String> {
        let begun = text.split("docs/").skip(1);
        let names = begun.filter_map(|rest| {
            let end =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c)).unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('.');
            name.strip_suffix(".md").map(|page| format!("docs/{page}.md"))
        });
        names.collect()
    };
    let mut pending: Vec<PathBuf> = ["src", "systemd", "deploy", "packaging", "xtask/src", "tests"]
        .map(|folder| repository().join(folder))
        .into();
    let mut faults = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            let missing = name(&text).into_iter().filter(|page| !repository().join(page).is_file());
            faults.extend(missing.map(|page| format!("{} names {page}", path.display())));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
