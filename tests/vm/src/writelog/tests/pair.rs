//! A disk before and after an update. Both have the same files at the same places, so that they differ in the
//! content of a few blocks only, which can be written in any order.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::Request;
use crate::writelog::{BootedSystem, Layout, Side};

pub const BOOT: (u64, u64) = (1 << 20, 8 << 20);
pub const ROOT: (u64, u64) = (9 << 20, 16 << 20);
const LAYOUT: Layout = Layout { boot: BOOT, root: ROOT };
const BLOCK: usize = 4096;

/// Format of the boot entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loader {
    Syslinux,
    Entries,
}

/// The raw disks from before and after the update.
#[derive(Debug)]
pub struct Pair {
    pub directory: tempfile::TempDir,
    pub old: PathBuf,
    new: PathBuf,
}

impl Pair {
    pub fn make(loader: Loader) -> Self {
        // Keep the disks in memory if possible.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(place).unwrap();
        let [old, new] = ["old", "new"].map(|name| disk(directory.path(), name, loader));
        assert_eq!(Layout::of_mbr(&old).unwrap(), LAYOUT);
        Self { directory, old, new }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Return the writes that turn a partition of the old disk into that of the new one.
    pub fn changes(&self, (start, length): (u64, u64)) -> Vec<Request> {
        let [old, new] = [&self.old, &self.new].map(|path| {
            let mut bytes = vec![0; usize::try_from(length).unwrap()];
            std::fs::File::open(path).unwrap().read_exact_at(&mut bytes, start).unwrap();
            bytes
        });
        let blocks = old.chunks(BLOCK).zip(new.chunks(BLOCK)).enumerate();
        let changed = blocks.filter(|(_, (old, new))| old != new);
        let at = |index: usize| start + u64::try_from(index * BLOCK).unwrap();
        changed.map(|(index, (_, new))| Request::Write(at(index), new.to_vec())).collect()
    }
}

/// Judge a state. The new system with the old configuration is a mixture, which is an error.
pub fn judge(booted: &BootedSystem) -> Result<Side> {
    let config = booted.deployment.text("etc/config")?.unwrap_or_default();
    let config = config.trim();
    ensure!(booted.var.text("shared")?.as_deref() == Some("here"), "/var lacks its file");
    match booted.deployment.path().rsplit('/').next() {
        Some("a.0") => {
            ensure!(config == "old", "the old system has the configuration {config:?}");
            Ok(Side::Old)
        }
        Some("b.0") => {
            ensure!(config == "new", "the new system has the configuration {config:?}");
            let program = booted.deployment.read("usr/program")?;
            ensure!(program == program_of("new"), "the new system's program is torn");
            Ok(Side::New)
        }
        other => anyhow::bail!("unknown deployment {other:?}"),
    }
}

fn disk(directory: &Path, name: &str, loader: Loader) -> PathBuf {
    let tree = directory.join(format!("{name}.tree"));
    let (path, is_new) = (directory.join(name), name == "new");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(ROOT.0 + ROOT.1).unwrap();
    let partitions = [BOOT, ROOT].map(|(start, length)| [start / 512, length / 512]);
    for (at, number) in partitions.concat().into_iter().enumerate() {
        let (entry, field) = (at / 2, at % 2);
        let bytes = u32::try_from(number).unwrap().to_le_bytes();
        file.write_all_at(&bytes, u64::try_from(446 + 16 * entry + 8 + 4 * field).unwrap()).unwrap();
    }
    boot_files(&tree.join("boot"), loader, if is_new { "b" } else { "a" });
    root_files(&tree.join("root"), if is_new { "new" } else { "---" });
    for (part, (start, length)) in [("boot", BOOT), ("root", ROOT)] {
        let image = directory.join(format!("{name}.{part}"));
        let mut mke2fs = Command::new("mke2fs");
        // Fixed UUID and hash seed, so that both file systems have the same layout.
        let uuid = "00000000-0000-4000-8000-000000000000";
        mke2fs.args(["-q", "-t", "ext4", "-O", "verity", "-U", uuid, "-E"]).arg(format!("hash_seed={uuid}"));
        mke2fs.arg("-d").arg(tree.join(part)).arg(&image).arg(format!("{}k", length / 1024));
        let output = mke2fs.env("E2FSPROGS_FAKE_TIME", "1700000000").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        file.write_all_at(&std::fs::read(&image).unwrap(), start).unwrap();
    }
    path
}

/// Return content of several blocks, half of which can be lost.
fn program_of(config: &str) -> Vec<u8> {
    config.repeat(16 * BLOCK / config.len()).into_bytes()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn boot_files(top: &Path, loader: Loader, first: &str) {
    write(&top.join("ostree/os-1/vmlinuz"), "kernel");
    let options = |which: &str| format!("root=LABEL=root ostree=/ostree/boot.1/os/{which}/0");
    let other = if first == "a" { "b" } else { "a" };
    match loader {
        Loader::Syslinux => {
            let label = |which: &str| {
                let options = options(which);
                format!("LABEL {which}\n\tKERNEL /boot/ostree/os-1/vmlinuz\n\tAPPEND {options}\n")
            };
            write(&top.join("loader.0/syslinux.cfg"), &format!("{}{}", label(first), label(other)));
            write(&top.join("syslinux/ldlinux.sys"), "");
            std::os::unix::fs::symlink("../loader/syslinux.cfg", top.join("syslinux/syslinux.cfg")).unwrap();
        }
        Loader::Entries => {
            for (version, which) in [(10, first), (9, other)] {
                let options = options(which);
                let text = format!("version {version}\nlinux /ostree/os-1/vmlinuz\noptions {options}\n");
                write(&top.join(format!("loader.0/entries/ostree-{version}.conf")), &text);
            }
        }
    }
    std::os::unix::fs::symlink("loader.0", top.join("loader")).unwrap();
}

fn root_files(top: &Path, new: &str) {
    for (which, config) in [("a", "old"), ("b", new)] {
        let deployment = format!("ostree/deploy/os/deploy/{which}.0");
        write(&top.join(&deployment).join("etc/config"), &format!("{config}\n"));
        write(&top.join(&deployment).join("usr/program"), &String::from_utf8(program_of(config)).unwrap());
        let links = top.join(format!("ostree/boot.1.1/os/{which}"));
        std::fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink(format!("../../../deploy/os/deploy/{which}.0"), links.join("0")).unwrap();
    }
    std::os::unix::fs::symlink("boot.1.1", top.join("ostree/boot.1")).unwrap();
    write(&top.join("ostree/deploy/os/var/shared"), "here");
}
