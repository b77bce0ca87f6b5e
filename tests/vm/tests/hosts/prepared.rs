//! Saved hosts that several scenarios resume from, and their configs.

use anyhow::Result;
use vm::config::Config;
use vm::operator::{ensure_current, update};
use vm::{Host, HostOrigin, prepared, scenario};

use crate::change::{Change, REBOOT, run_to_success};

/// Return a host with the generation of config `one`, on version 1 of the OS.
pub fn running_one() -> Result<HostOrigin> {
    prepared("one", || {
        scenario(HostOrigin::Fresh, |host| {
            update(host, &one())?;
            host.save_as("one")
        })
    })
}

/// Return a host after the update to config `two`, which includes version 2 of the OS.
pub fn running_two() -> Result<HostOrigin> {
    let before = staged(Change::Image)?;
    prepared("two", || {
        scenario(before, |host| {
            let before = host.boot_id()?;
            host.spawn(&Change::Image.command())?;
            host.wait_for_boot(&before, REBOOT)?;
            ensure_current(host, "two")?;
            host.save_as("two")
        })
    })
}

/// Return a host on which a change is staged.
pub fn staged(change: Change) -> Result<HostOrigin> {
    let before = change.origin()?;
    let name = format!("staged-{change:?}").to_lowercase();
    prepared(&name, || {
        scenario(before, |host| {
            change.stage(host)?;
            // A local change between staging and reboot.
            host.run_ok("echo local > /etc/local && sync")?;
            host.save_as(&name)
        })
    })
}

/// Return a host on which the faulty version of the OS is staged. A scenario writes the name of the fault to
/// `/var/fault`.
pub fn staged_faulty() -> Result<HostOrigin> {
    let before = running_one()?;
    prepared("staged-faulty", || {
        scenario(before, |host| {
            host.registry().start()?;
            host.write("/var/tmp/desired.json", faulty(host).render())?;
            run_to_success(host, "flameholder apply --desired /var/tmp/desired.json --locked")?;
            // The registry is down from here on: a rollback needs neither it nor the API.
            host.registry().stop();
            host.run_ok("echo local > /etc/local && sync")?;
            host.save_as("staged-faulty")
        })
    })
}

/// Return a config with version 3 of the OS, and a boot check of two minutes.
pub fn faulty(host: &Host) -> Config {
    let image = host.image(3).expect("the images are built");
    let health =
        "[boot-check]\ntimeout = 120\nboots = 2\nrequired-units = [\"needed.service\"]\ncheck-timeout = 10\n";
    configured("faulty").image(&image).file("/etc/flameholder/config.d/60-health.toml", health)
}

/// Return a config with version 1 of the OS.
pub fn one() -> Config {
    configured("one").file("/etc/app/only-in-one", "one").file("/usr/local/bin/only-in-one", "one")
}

/// Return a config with version 2 of the OS and other kernel arguments.
pub fn two(host: &Host) -> Config {
    let image = host.image(2).expect("the images are built");
    let more = configured("two").image(&image).kernel_argument("flameholder-test=two");
    more.kernel_argument("twice").kernel_argument("twice").file("/etc/new/only-in-two", "two")
}

/// Return a config with version 1 of the OS and another unit.
pub fn three() -> Config {
    configured("three").file("/usr/local/new/only-in-three", "three").unit("another.service")
}

/// Return the files, unit and key that each config has, with the name of the config in their content.
fn configured(name: &str) -> Config {
    let mut config = Config::named(name).unit("ours.service").key(&format!("ssh-ed25519 AAAA {name}"));
    for number in 0..6 {
        config = config.file(&format!("/etc/app/{number}.conf"), &format!("{number} {name}\n"));
    }
    let mode = if name == "one" { 0o600 } else { 0o640 };
    config.file_of_mode("/etc/app/secret", name, mode).file("/usr/local/bin/program", &name.repeat(4000))
}
