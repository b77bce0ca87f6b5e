//! One document with the bytes that a release writes and the meaning that it must keep.

use std::fmt::Debug;

/// Reader of a document's bytes.
type DocumentReader = Box<dyn Fn(&[u8]) -> String>;

/// Document of one kind.
pub(super) struct DocumentSample {
    /// File name of the fixture.
    pub(super) name: &'static str,
    /// Bytes that this release writes.
    pub(super) rendered: Vec<u8>,
    /// Value that this release must read, in its debug format.
    pub(super) meaning: String,
    /// Reader of this release; the value in its debug format, or the error.
    pub(super) read: DocumentReader,
}

impl DocumentSample {
    pub(super) fn new<V: Debug, E: Debug>(
        name: &'static str,
        rendered: Vec<u8>,
        value: &V,
        parse: impl Fn(&[u8]) -> Result<V, E> + 'static,
    ) -> Self {
        let read = move |bytes: &[u8]| match parse(bytes) {
            Ok(value) => format!("{value:#?}"),
            Err(error) => format!("{error:#?}"),
        };
        Self { name, rendered, meaning: format!("{value:#?}"), read: Box::new(read) }
    }
}
