//! Boot menu as a bootloader reads it.

use std::fs;
use std::path::{Path, PathBuf};

/// Kernel argument with the generation of a boot entry.
const GENERATION: &str = "flameholder.generation=";

/// Boot entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    version: u32,
    /// Kernel arguments in order, quotes included, without `ostree=`.
    pub arguments: Vec<String>,
    /// Value of `ostree=`.
    pub link: String,
    /// Root of the deployment that the entry boots, with links resolved.
    pub root: PathBuf,
    /// File names of the overlays of the initramfs.
    pub overlays: Vec<String>,
}

impl Entry {
    /// Kernel arguments without `flameholder.generation=`.
    pub fn plain_arguments(&self) -> Vec<String> {
        self.arguments.iter().filter(|argument| !argument.starts_with(GENERATION)).cloned().collect()
    }

    /// The only generation that the kernel arguments name. Panics if there is none, or more than one.
    pub fn generation(&self) -> String {
        let mut named = self.arguments.iter().filter_map(|argument| argument.strip_prefix(GENERATION));
        let generation = named.next().expect("the boot entry names a generation");
        assert_eq!(named.next(), None, "more than one generation: {:?}", self.arguments);
        generation.to_owned()
    }

    /// Commit and serial of the deployment.
    pub fn id(&self) -> (String, u64) {
        let name = self.root.file_name().unwrap().to_str().unwrap();
        let (commit, serial) = name.rsplit_once('.').unwrap();
        (commit.to_owned(), serial.parse().unwrap())
    }

    /// Path in the deployment.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Boot entries of the sysroot; the first has the highest version and boots by default.
pub fn entries(sysroot: &Path) -> Vec<Entry> {
    let files = fs::read_dir(sysroot.join("boot/loader/entries")).expect("boot entries");
    let mut entries: Vec<Entry> = files.map(|file| read(sysroot, &file.unwrap().path())).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.version));
    entries
}

fn read(sysroot: &Path, file: &Path) -> Entry {
    let text = fs::read_to_string(file).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    for part in ["linux", "initrd"] {
        let below = field(part).trim_start_matches('/');
        assert!(sysroot.join("boot").join(below).is_file(), "{part} of {text} is missing");
    }
    let (links, arguments): (Vec<_>, Vec<_>) =
        words(field("options")).into_iter().partition(|word| word.starts_with("ostree="));
    let [link] = links.as_slice() else { panic!("expected one ostree= in {text}") };
    let link = link.trim_start_matches("ostree=").to_owned();
    let root = sysroot.join(link.trim_start_matches('/'));
    let root = root.canonicalize().expect("the boot entry leads to a deployment");
    let overlay = |line: &str| Some(line.strip_prefix("initrd /ostree/initramfs-overlays/")?.to_owned());
    let overlays = text.lines().filter_map(overlay).collect();
    Entry { version: field("version").parse().unwrap(), arguments, link, root, overlays }
}

/// Words of a kernel command line. Double quotes keep white space together and belong to the word.
pub fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        quoted ^= character == '"';
        if character.is_whitespace() && !quoted {
            words.push(String::new());
        } else {
            words.last_mut().unwrap().push(character);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
