//! The `MachineConfig` that asks for the benchmark's files.

use std::io::Write;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::contents::{self, Edition};

/// How contents are written into the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `data:,` with percent-encoding where a URL needs it.
    Plain,
    /// `data:;base64,` of what `compression: gzip` inflates.
    Gzip,
}

/// Which files differ between the editions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    All,
    First,
}

/// A config's size and form.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub files: u32,
    pub changed: Changed,
    pub encoding: Encoding,
}

impl Shape {
    /// What the file of that number holds when the whole is in `edition`.
    pub fn edition_of(self, index: u32, edition: Edition) -> Edition {
        match self.changed {
            Changed::First if index > 0 => Edition::A,
            _ => edition,
        }
    }

    /// How many files an edition changes, counted from the first.
    pub fn changed_files(self) -> u32 {
        match self.changed {
            Changed::All => self.files,
            Changed::First => 1,
        }
    }

    /// The rendered config, as JSON.
    ///
    /// # Errors
    /// Compression or serialization fails, neither of which happens in memory.
    pub fn document(self, edition: Edition) -> Result<Vec<u8>> {
        let files: Result<Vec<_>> = (0..self.files).map(|index| self.file(index, edition)).collect();
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": format!("rendered-bench-{}", edition.word())},
            "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": files?}}},
        });
        serde_json::to_vec(&config).context("writing the config")
    }

    fn file(self, index: u32, edition: Edition) -> Result<Value> {
        let text = contents::contents(index, self.edition_of(index, edition));
        let contents = match self.encoding {
            Encoding::Plain => json!({"source": plain(&text)}),
            Encoding::Gzip => json!({"source": gzipped(&text)?, "compression": "gzip"}),
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

    fn sources(shape: Shape, edition: Edition) -> Vec<Value> {
        let config: Value = serde_json::from_slice(&shape.document(edition).unwrap()).unwrap();
        config["spec"]["config"]["storage"]["files"].as_array().unwrap().clone()
    }

    #[test]
    fn a_plain_url_keeps_what_a_url_may_hold() {
        assert_eq!(plain("a-1 = b\n"), "data:,a-1%20=%20b%0A");
    }

    #[test]
    fn gzipped_contents_inflate_to_the_same() {
        let url = gzipped("some text").unwrap();
        let packed = base64::decode(url.strip_prefix("data:;base64,").unwrap()).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "some text");
    }

    #[test]
    fn an_edition_changes_the_files_that_it_says() {
        for (changed, expected) in [(Changed::All, 50), (Changed::First, 1)] {
            let shape = Shape { files: 50, changed, encoding: Encoding::Plain };
            let [a, b] = [Edition::A, Edition::B].map(|edition| sources(shape, edition));
            assert_eq!(a.len(), 50);
            let differing = a.iter().zip(&b).filter(|(a, b)| a["contents"] != b["contents"]).count();
            assert_eq!(differing, expected);
            assert_eq!(shape.changed_files() as usize, expected);
            assert_ne!(a[0]["contents"], b[0]["contents"]);
        }
    }
}
