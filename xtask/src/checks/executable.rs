//! Bounds on the size of the agent's executable, on the libraries that it links and on the libc that it needs: it runs on
//! every host.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::invocation;
use crate::project_tree::TlsLibrary;

const MIB: u64 = 1024 * 1024;
/// The largest stripped size. Speed is worth more than size, so this bounds dependencies, not optimisation.
const SIZE_LIMIT: u64 = 20 * MIB;
/// Libraries of the worker, which runs during one transaction only.
const WORKER_ONLY: [&str; 5] = ["libostree", "libglib", "libgobject", "libgio", "libsoup"];

/// Newest version of glibc whose symbols an executable may need, major and minor: that of RHEL 9 and its CoreOS.
const GLIBC: (u32, u32) = (2, 34);

/// Check that an executable starts with the oldest glibc of the hosts.
///
/// # Errors
/// The executable needs symbols of a newer glibc.
pub fn ensure_portable(executable: &Path) -> Result<()> {
    let versions = invocation::read(
        Command::new("readelf").args(["--version-info", "--wide"]).arg(executable).env("LC_ALL", "C"),
    )?;
    let newest = glibc_versions(&versions).max().unwrap_or_default();
    ensure!(
        newest > (0, 0) && newest <= GLIBC,
        "{} needs symbols of glibc {}.{}, but hosts can have {}.{}",
        executable.display(),
        newest.0,
        newest.1,
        GLIBC.0,
        GLIBC.1
    );
    Ok(())
}

/// The versions of glibc in the output of `readelf --version-info`.
fn glibc_versions(text: &str) -> impl Iterator<Item = (u32, u32)> {
    let names = text.split("Name: GLIBC_").skip(1);
    names.filter_map(|name| {
        let mut numbers = name.split(|character: char| !character.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}

/// Check size and linkage of a stripped ELF executable.
///
/// # Errors
/// The executable is too large, links a library that only the worker may load, or has another library for TLS.
pub fn ensure_lean(executable: &Path, tls: TlsLibrary) -> Result<()> {
    let size =
        executable.metadata().with_context(|| format!("reading the size of {}", executable.display()))?.len();
    ensure!(size <= SIZE_LIMIT, "{} has {size} bytes, {SIZE_LIMIT} are allowed", executable.display());
    let dynamic = invocation::read(
        Command::new("readelf").args(["--dynamic", "--wide"]).arg(executable).env("LC_ALL", "C"),
    )?;
    let unwanted = unwanted(&dynamic);
    ensure!(
        unwanted.is_empty(),
        "{} links {}: keep the `ostree` dependencies to the worker",
        executable.display(),
        unwanted.join(", ")
    );
    let links_openssl = needed(&dynamic).any(|library| library.starts_with("libssl."));
    ensure!(
        links_openssl == (tls == TlsLibrary::Openssl),
        "{} is not the build with {tls:?}",
        executable.display()
    );
    println!("{size} bytes, links {}", needed(&dynamic).collect::<Vec<_>>().join(", "));
    Ok(())
}

fn unwanted(dynamic: &str) -> Vec<&str> {
    needed(dynamic).filter(|library| WORKER_ONLY.iter().any(|name| library.starts_with(name))).collect()
}

/// The shared libraries in the output of `readelf --dynamic`.
fn needed(dynamic: &str) -> impl Iterator<Item = &str> {
    dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = "\
Dynamic section at offset 0x2dd8 contains 28 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libostree-1.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libglib-2.0.so.0]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000e (SONAME)             Library soname: [libgio.so]
";

    #[test]
    fn newest_version_of_glibc_is_found() {
        let text = "  0x0020:   Name: GLIBC_2.9  Flags: none\n  0x0030:   Name: GLIBC_2.17  Flags: none\n  0x40:   Name: GCC_3.0";
        assert_eq!(glibc_versions(text).max(), Some((2, 17)));
        assert_eq!(glibc_versions("").max(), None);
    }

    #[test]
    fn libraries_of_the_worker_are_found() {
        assert_eq!(unwanted(DYNAMIC), ["libostree-1.so.1", "libglib-2.0.so.0"]);
    }

    #[test]
    fn output_of_readelf_is_parsed() {
        let own = std::env::current_exe().unwrap();
        let dynamic = invocation::read(Command::new("readelf").arg("--dynamic").arg(own)).unwrap();
        assert!(needed(&dynamic).any(|library| library.starts_with("libc.so")));
        assert_eq!(unwanted(&dynamic), Vec::<&str>::new());
    }
}
