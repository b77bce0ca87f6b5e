//! The agent's own documents as earlier releases wrote them: `tests/fixtures/documents/N/` has one of each kind in
//! format N, and every later release must read all of them.
//!
//! A change of a format fails here. If it is a member that older documents may lack, give the member its value of old
//! documents in every `format_N.rs`. For any other change, raise the schema, copy the newest `format_N.rs` under the next
//! number, add it to [`FORMATS`], and write its folder with `FLAMEHOLDER_BLESS=1`. Folders of earlier releases are never
//! written again.

mod format_1;
mod sample;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use sample::DocumentSample;

/// Number of a format, and its samples.
type DocumentFormat = (u32, fn() -> Vec<DocumentSample>);

/// The samples of each format, as this release reads them. It writes the last one.
const FORMATS: [DocumentFormat; 1] = [(1, format_1::samples)];

fn folder(format: u32) -> PathBuf {
    testbed::fixture("documents").join(format.to_string())
}

fn file_names(folder: PathBuf) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.into_string().unwrap()).collect()
}

/// Writes the folder of the newest format if `FLAMEHOLDER_BLESS` is set.
#[cfg_attr(feature = "next-schema", ignore = "the next release writes a format without a folder")]
#[test]
fn rendered_documents_are_those_of_the_newest_format() {
    let (format, samples) = FORMATS[FORMATS.len() - 1];
    for sample in samples() {
        let path = folder(format).join(sample.name);
        if env::var_os("FLAMEHOLDER_BLESS").is_some() {
            fs::create_dir_all(folder(format)).unwrap();
            fs::write(&path, &sample.rendered).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap();
        let rendered = String::from_utf8(sample.rendered).unwrap();
        assert_eq!(rendered, stored, "{} changed; see {}", sample.name, file!());
    }
}

#[test]
fn documents_of_every_format_keep_their_meaning() {
    for (format, samples) in FORMATS {
        for sample in samples() {
            let stored = fs::read(folder(format).join(sample.name)).unwrap();
            assert_eq!((sample.read)(&stored), sample.meaning, "{} of format {format}", sample.name);
        }
    }
}

#[test]
fn every_stored_document_has_a_sample() {
    let formats = FORMATS.map(|(format, _)| format.to_string());
    assert_eq!(file_names(testbed::fixture("documents")), BTreeSet::from(formats));
    for (format, samples) in FORMATS {
        let names = samples().into_iter().map(|sample| sample.name.to_owned()).collect();
        assert_eq!(file_names(folder(format)), names, "format {format}");
    }
}
