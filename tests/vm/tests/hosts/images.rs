//! The images of this repository's Containerfiles: one boots as the OS of a host, the other runs in a pod.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use vm::config::Config;
use vm::containerfile::BuiltImage;
use vm::operator::{booted, status, update};
use vm::{HostOrigin, Lab, scenario};

/// Return the folder with the tree of `cargo xtask install`: `cargo xtask vm test` makes it.
pub(crate) fn installed() -> Result<PathBuf> {
    let folder = std::env::var_os("FLAMEHOLDER_INSTALLED")
        .context("FLAMEHOLDER_INSTALLED names no installation: run `cargo xtask vm test`")?;
    Ok(folder.into())
}

#[test]
fn image_of_the_containerfile_boots_and_updates() -> Result<()> {
    let image = BuiltImage::build(&Lab::locate()?, "Containerfile", &installed()?)?;
    image.label("org.opencontainers.image.title")?;
    scenario(HostOrigin::Fresh, |host| {
        let reference = image.serve(host.registry())?;
        update(host, &Config::named("built").image(&reference).file("/etc/app.conf", "built"))?;
        let os = host.run_ok("cat /usr/lib/os-version")?;
        ensure!(os.trim() == "5", "version {os} of the OS is booted, not the base of the image");
        // The agent that booted is the one that the image's last layer brings.
        let version = host.run_ok("flameholder version")?;
        ensure!(version == image.run(&["flameholder", "version"])?, "{version}");
        host.registry().stop();
        update(
            host,
            &Config::named("next").image(&reference).kernel_argument("next=1").file("/etc/app.conf", "next"),
        )?;
        let status = status(host)?;
        ensure!(
            booted(&status)?["image"].as_str().is_some_and(|booted| booted.contains(&reference)),
            "{status}"
        );
        ensure!(host.run_ok("cat /etc/app.conf")? == "next", "/etc/app.conf is not that of the config");
        host.run_ok("flameholder verify").map(drop)
    })
}

#[test]
fn image_of_the_daemon_set_adopts() -> Result<()> {
    let image = BuiltImage::build(&Lab::locate()?, "deploy/kubernetes/Containerfile", &installed()?)?;
    image.label("org.opencontainers.image.title")?;
    let help = image.run(&["flameholder", "adopt", "--help"])?;
    ensure!(help.contains("Usage: flameholder adopt"), "{help}");
    Ok(())
}
