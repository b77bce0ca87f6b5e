//! Trees as large as an OS, in as many layers.

use std::path::Path;

use anyhow::{Context, Result};
use osimage::{Os, Release};

/// Layers besides those of the kernel and of the base.
const PARTS: [&str; 14] = [
    "part-00", "part-01", "part-02", "part-03", "part-04", "part-05", "part-06", "part-07", "part-08",
    "part-09", "part-10", "part-11", "part-12", "part-13",
];
/// Numbers of the parts that differ between versions.
const CHANGED: [usize; 3] = [3, 7, 11];
/// Files of a part, and their smallest and largest size in bytes.
const FILES: u32 = 840;
const SMALLEST: u64 = 12_000;
const SPREAD: u64 = 32_768;

/// A version of the OS with 11,760 files more.
#[derive(Debug, Clone, Copy)]
pub struct LayeredTree {
    pub version: u32,
}

impl LayeredTree {
    pub fn os(self) -> Os {
        Os::new(self.version)
    }

    /// Write an image of it to an OCI layout, and return the digest of the manifest.
    pub fn write_image(self, layout: &Path) -> Result<String> {
        let scratch =
            tempfile::tempdir_in(layout.parent().unwrap_or(layout)).context("making a directory")?;
        let (tree, os) = (scratch.path().join("tree"), self.os());
        os.write(&tree).context("writing the OS")?;
        let mut layers = vec![("/usr/lib/modules/".to_owned(), "kernel")];
        for (number, name) in PARTS.iter().enumerate() {
            self.write_part(number, &tree.join("usr/share").join(name)).context("writing a part")?;
            layers.push((format!("/usr/share/{name}/"), *name));
        }
        layers.push(("/".to_owned(), "base"));
        let release = Release {
            version: os.version(),
            number: self.version,
            kernel: Some(os.kernel()),
            selinux: false,
            layers,
        };
        osimage::write_tree_image(&tree, &release, layout, None)
    }

    fn write_part(self, number: usize, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let version = if CHANGED.contains(&number) { self.version } else { 0 };
        let mut noise = PartNoise(1 + 1000 * number as u64 + u64::from(version));
        (0..FILES).try_for_each(|file| std::fs::write(directory.join(format!("file-{file}")), noise.file()))
    }
}

/// Reproducible content, half of which compresses (xorshift).
struct PartNoise(u64);

impl PartNoise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn file(&mut self) -> Vec<u8> {
        let words = (SMALLEST + self.next() % SPREAD) / 8;
        let word = |_| match self.next() {
            even if even % 2 == 0 => even.to_le_bytes(),
            _ => *b"the same",
        };
        (0..words).flat_map(word).collect()
    }
}
