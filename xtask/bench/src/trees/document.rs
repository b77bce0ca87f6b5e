//! The `MachineConfig` that contains the benchmark's files.

use std::io::Write;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::contents::{self, TreeEdition};

/// The encoding of file contents in the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentEncoding {
    /// `data:,` with percent-encoding where a URL needs it.
    Plain,
    /// `data:;base64,` of gzip data, with `compression: gzip`.
    Gzip,
}

/// The files that differ between the editions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedFiles {
    All,
    First,
}

/// The size and form of a config.
#[derive(Debug, Clone, Copy)]
pub struct ConfigShape {
    pub files: u32,
    pub changed: ChangedFiles,
    pub encoding: ContentEncoding,
}

impl ConfigShape {
    /// Return the edition of one file when the config is in `edition`.
    pub fn edition_of(self, index: u32, edition: TreeEdition) -> TreeEdition {
        match self.changed {
            ChangedFiles::First if index > 0 => TreeEdition::A,
            _ => edition,
        }
    }

    /// The number of files that a change of the edition changes, counted from the first.
    pub fn changed_files(self) -> u32 {
        match self.changed {
            ChangedFiles::All => self.files,
            ChangedFiles::First => 1,
        }
    }

    /// Render the config as JSON.
    ///
    /// # Errors
    /// Compression or serialization fails, neither of which happens in memory.
    pub fn document(self, edition: TreeEdition) -> Result<Vec<u8>> {
        let files: Result<Vec<_>> = (0..self.files).map(|index| self.file(index, edition)).collect();
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": format!("rendered-bench-{}", edition.word())},
            "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files?}}},
        });
        serde_json::to_vec(&config).context("writing the config")
    }

    fn file(self, index: u32, edition: TreeEdition) -> Result<Value> {
        let text = contents::contents(index, self.edition_of(index, edition));
        let contents = match self.encoding {
            ContentEncoding::Plain => json!({"source": plain(&text)}),
            ContentEncoding::Gzip => json!({"source": gzipped(&text)?, "compression": "gzip"}),
        };
        let path = format!("/{}", contents::path(index));
        Ok(json!({"path": path, "mode": 0o644, "overwrite": true, "contents": contents}))
    }
}

fn plain(text: &str) -> String {
    let escaped = |byte: u8| {
        let may_stand = byte.is_ascii_alphanumeric() || b"-._~=".contains(&byte);
        if may_stand { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    format!("data:,{}", text.bytes().map(escaped).collect::<Vec<_>>().concat())
}

fn gzipped(text: &str) -> Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    Ok(format!("data:;base64,{}", base64::encode(packed.context("compressing contents")?)))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn sources(shape: ConfigShape, edition: TreeEdition) -> Vec<Value> {
        let config: Value = serde_json::from_slice(&shape.document(edition).unwrap()).unwrap();
        config["spec"]["config"]["storage"]["files"].as_array().unwrap().clone()
    }

    #[test]
    fn plain_url_escapes_other_than_unreserved_characters() {
        assert_eq!(plain("a-1 = b\n"), "data:,a-1%20=%20b%0A");
    }

    #[test]
    fn gzipped_contents_inflate_to_the_original() {
        let url = gzipped("some text").unwrap();
        let packed = base64::decode(url.strip_prefix("data:;base64,").unwrap()).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "some text");
    }

    #[test]
    fn changed_files_are_those_of_the_shape() {
        for (changed, expected) in [(ChangedFiles::All, 50), (ChangedFiles::First, 1)] {
            let shape = ConfigShape { files: 50, changed, encoding: ContentEncoding::Plain };
            let [a, b] = [TreeEdition::A, TreeEdition::B].map(|edition| sources(shape, edition));
            assert_eq!(a.len(), 50);
            let differing = a.iter().zip(&b).filter(|(a, b)| a["contents"] != b["contents"]).count();
            assert_eq!(differing, expected);
            assert_eq!(shape.changed_files() as usize, expected);
            assert_ne!(a[0]["contents"], b[0]["contents"]);
        }
    }
}
