//! Parts that all manual pages have.

use std::path::PathBuf;

use roff::{Inline, Roff, bold, italic, roman};

use crate::GeneratedFile;

/// Folder of the pages.
const PAGES: &str = "docs/man";
/// Name of the manual in the footer of each page.
const MANUAL: &str = "Flameholder";

/// Begin a page that is not made from the command line.
pub(crate) fn begin(name: &str, section: &str, about: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, section, "", &version(), MANUAL]);
    heading(&mut page, "NAME");
    page.text([roman(format!("{name} - {about}"))]);
    page
}

/// Version in the footer of each page.
pub(crate) fn version() -> String {
    format!("flameholder {}", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn heading(page: &mut Roff, title: &str) {
    page.control("SH", [title]);
}

/// Add a term and its meaning.
pub(crate) fn item(page: &mut Roff, term: &str, text: &str) {
    page.control("TP", []);
    page.text([bold(term)]);
    page.text(marked(text));
}

/// Add a paragraph to the meaning of a term.
pub(crate) fn continued(page: &mut Roff, text: &str) {
    page.control("IP", []);
    page.text(marked(text));
}

/// Add a paragraph; text between backquotes is set apart.
pub(crate) fn paragraph(page: &mut Roff, text: &str) {
    page.control("PP", []);
    page.text(marked(text));
}

/// Add lines as they are.
pub(crate) fn verbatim(page: &mut Roff, lines: &str) {
    page.control("PP", []);
    page.control("RS", ["4"]);
    page.control("EX", []);
    for line in lines.lines() {
        page.text([roman(line)]);
    }
    page.control("EE", []);
    page.control("RE", []);
}

/// Add the section of related pages.
pub(crate) fn see_also(page: &mut Roff, names: &[(&str, &str)]) {
    heading(page, "SEE ALSO");
    let mut line = Vec::new();
    for (index, (name, section)) in names.iter().enumerate() {
        line.push(bold(*name));
        line.push(roman(format!("({section}){}", if index + 1 == names.len() { "" } else { ", " })));
    }
    page.text(line);
}

/// Return the file of a page.
pub(crate) fn file(name: &str, section: &str, text: String) -> GeneratedFile {
    GeneratedFile { path: PathBuf::from(PAGES).join(format!("{name}.{section}")), text }
}

fn marked(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { italic(part) } else { roman(part) }).collect()
}
