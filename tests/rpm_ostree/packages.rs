//! Kernel types and extensions.

use std::fs;

use crate::host::Host;

/// Makes these packages available on the host, as a repository of the administrator's.
pub(crate) fn offer(host: &Host, packages: &[&str]) {
    let directory = host.var("lib/packages");
    fs::create_dir_all(&directory).unwrap();
    for package in packages {
        fs::write(directory.join(package), format!("{package} 1\n")).unwrap();
    }
    host.write_etc("yum.repos.d/local.repo", "[local]\nbaseurl=file:///var/lib/packages\n");
}
