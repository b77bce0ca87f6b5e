//! Hosts that several tests go on from, each made once, and the configurations that lead to them.

use anyhow::Result;
use vm::config::Config;
use vm::operator::{ensure_current, update};
use vm::{Host, HostOrigin, prepared, scenario};

use crate::change::{Change, REBOOT, run_to_success};

/// A host with the generation `one` on version 1 of the OS.
pub fn running_one() -> Result<HostOrigin> {
    prepared("one", || {
        scenario(HostOrigin::Fresh, |host| {
            update(host, &one())?;
            host.save_as("one")
        })
    })
}

/// The same after the update to `two`, which came with version 2.
pub fn running_two() -> Result<HostOrigin> {
    let before = staged(Change::Image)?;
    prepared("two", || {
        scenario(before, |host| {
            let before = host.boot_id()?;
            host.spawn(Change::Image.command())?;
            host.wait_for_boot(&before, REBOOT)?;
            ensure_current(host, "two")?;
            host.save_as("two")
        })
    })
}

/// A host on which a change is staged, and waits.
pub fn staged(change: Change) -> Result<HostOrigin> {
    let before = change.origin()?;
    let name = format!("staged-{change:?}").to_lowercase();
    prepared(&name, || {
        scenario(before, |host| {
            change.stage(host)?;
            // By others, between staging and the reboot.
            host.run_ok("echo local > /etc/local && sync")?;
            host.save_as(&name)
        })
    })
}

/// A host on which the faulty version of the OS is staged; `/var/fault` is to say what is wrong with it.
pub fn staged_faulty() -> Result<HostOrigin> {
    let before = running_one()?;
    prepared("staged-faulty", || {
        scenario(before, |host| {
            host.registry().start()?;
            host.write("/var/tmp/desired.json", faulty(host).render())?;
            run_to_success(host, "flameholder apply --desired /var/tmp/desired.json --reboot never")?;
            // Neither the API nor a registry is there from here on.
            host.registry().stop();
            host.run_ok("echo local > /etc/local && sync")?;
            host.save_as("staged-faulty")
        })
    })
}

/// On version 3, which has to show within two minutes that it is healthy.
pub fn faulty(host: &Host) -> Config {
    let image = host.image(3).expect("the images are built");
    let health =
        "[boot-check]\ntimeout = 120\nboots = 2\nrequired-units = [\"needed.service\"]\ncheck-timeout = 10\n";
    configured("faulty").image(&image).file("/etc/flameholder/config.d/60-health.toml", health)
}

/// On version 1.
pub fn one() -> Config {
    configured("one").file("/etc/app/only-in-one", "one").file("/usr/local/bin/only-in-one", "one")
}

/// On version 2, with other kernel arguments.
pub fn two(host: &Host) -> Config {
    let image = host.image(2).expect("the images are built");
    let more = configured("two").image(&image).kernel_argument("flameholder-test=two");
    more.kernel_argument("twice").kernel_argument("twice").file("/etc/new/only-in-two", "two")
}

/// On version 1, with another unit.
pub fn three() -> Config {
    configured("three").file("/usr/local/new/only-in-three", "three").unit("another.service")
}

/// What each of them has, of another content.
fn configured(name: &str) -> Config {
    let mut config = Config::named(name).unit("ours.service").key(&format!("ssh-ed25519 AAAA {name}"));
    for number in 0..6 {
        config = config.file(&format!("/etc/app/{number}.conf"), &format!("{number} {name}\n"));
    }
    let mode = if name == "one" { 0o600 } else { 0o640 };
    config.file_of_mode("/etc/app/secret", name, mode).file("/usr/local/bin/program", &name.repeat(4000))
}
