//! Activation of a confirmed generation, which serves whatever its disk says, and of an unconfirmed one, which fails
//! closed.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;

use testbed::booted::config::{Config, assert_config, full_config};
use testbed::booted::host::{Host, confirmed_host};
use testbed::model::run::Outcome;

const CONFIG: &str = "home/core/app/cfg";

/// Config with a file in the home directory of an unprivileged user.
fn config(text: &str) -> Config {
    full_config(text).file_with_mode(&format!("/var/{CONFIG}"), 0o644, text)
}

fn host_with_config() -> Host {
    let host = confirmed_host("one");
    for path in ["home/core", "home/core/app"] {
        fs::create_dir_all(host.var(path)).unwrap();
        chown(host.var(path), Some(1000), Some(1000)).unwrap();
    }
    host.update(&host.config(config("two").json()), None);
    assert!(!host.etc("flameholder/unconfirmed").exists());
    host
}

/// Boot up to the end of the activation service.
fn activate(host: &Host) -> Outcome {
    host.shut_down();
    host.boot_kernel(0);
    host.run(["flameholder", "activate"])
}

fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
}

/// Damage the host of a confirmed generation, and return the outcome of the next activation.
fn activate_after(damage: impl FnOnce(&Host)) -> (Host, Outcome) {
    let host = host_with_config();
    damage(&host);
    let activated = activate(&host);
    assert!(activated.code == Some(0) && host.workload_starts(), "{activated:?}");
    (host, activated)
}

/// Panics unless every path of the config is as configured but those named.
fn assert_drift(host: &Host, expected: &[&str]) {
    let verified = host.run(["flameholder", "verify"]);
    assert_eq!(verified.code, Some(if expected.is_empty() { 0 } else { 2 }), "{verified:?}");
    assert!(expected.iter().all(|path| verified.stdout.contains(path)), "{verified:?}");
    assert_eq!(verified.stdout.matches("  report\n").count(), expected.len(), "{verified:?}");
}

#[test]
fn confirmed_generation_serves_without_its_current_config() {
    let (host, activated) = activate_after(|host| remove(&host.etc("machine-config-daemon/currentconfig")));
    assert!(activated.stderr.contains("machine-config-daemon/currentconfig"), "{activated:?}");
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
}

#[test]
fn obstructed_path_does_not_hold_up_the_others() {
    for name in ["y", "bad\u{1}name"] {
        let (host, activated) = activate_after(|host| {
            remove(&host.var(CONFIG));
            fs::create_dir(host.var(CONFIG)).unwrap();
            fs::write(host.var(CONFIG).join(name), "").unwrap();
            remove(&host.var("usrlocal/bin/tool"));
        });
        assert!(activated.stderr.contains("/var/home/core/app/cfg"), "{activated:?}");
        assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
        assert!(host.var(CONFIG).join(name).exists(), "unmanaged content is never removed");
        assert_drift(&host, &[&format!("/var/{CONFIG}")]);
        // Once the path is free, the next boot puts the file in place.
        remove(&host.var(CONFIG));
        assert_eq!(activate(&host).code, Some(0));
        assert_drift(&host, &[]);
    }
}

#[test]
fn path_above_which_another_user_put_a_link_does_not_hold_up_the_others() {
    let (host, activated) = activate_after(|host| {
        remove(&host.var("home/core/app"));
        fs::create_dir(host.var("home/elsewhere")).unwrap();
        symlink("../elsewhere", host.var("home/core/app")).unwrap();
        lchown(host.var("home/core/app"), Some(1000), Some(1000)).unwrap();
        remove(&host.var("usrlocal/bin/tool"));
    });
    assert!(activated.stderr.contains("/var/home/core/app"), "{activated:?}");
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
    assert_eq!(fs::read_dir(host.var("home/elsewhere")).unwrap().count(), 0);
}

#[test]
fn lost_objects_are_computed_again_from_the_current_config() {
    for lost in ["lib/flameholder", "lib/flameholder/objects", "lib/flameholder/active"] {
        let (host, activated) = activate_after(|host| {
            remove(&host.var(lost));
            remove(&host.var("usrlocal/bin/tool"));
        });
        assert!(!activated.stderr.contains("not activated"), "{lost}: {activated:?}");
        assert_config(&host, "two", "one");
        assert_drift(&host, &[]);
        assert!(fs::read_dir(host.var("lib/flameholder/objects")).unwrap().count() > 0, "{lost}");
        // All that the next update needs is there again.
        host.update(&host.config(config("three").json()), None);
        assert_config(&host, "three", "two");
        host.assert_no_drift();
    }
}

#[test]
fn damaged_object_is_replaced() {
    let (host, _) = activate_after(|host| {
        for object in fs::read_dir(host.var("lib/flameholder/objects")).unwrap() {
            fs::write(object.unwrap().path(), "damaged").unwrap();
        }
        remove(&host.var("usrlocal/bin/tool"));
    });
    assert_config(&host, "two", "one");
    let repaired = activate(&host);
    assert!(repaired.code == Some(0) && repaired.stderr.is_empty(), "{repaired:?}");
}

#[test]
fn lost_objects_without_the_current_config_are_reported() {
    let (host, activated) = activate_after(|host| {
        remove(&host.etc("machine-config-daemon/currentconfig"));
        remove(&host.var("lib/flameholder/objects"));
    });
    assert!(activated.stderr.contains("lib/flameholder/objects/"), "{activated:?}");
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
}

#[test]
fn manifest_of_another_release_is_set_aside() {
    for unreadable in ["{\"schema\":2}\n", "{", ""] {
        let (host, activated) =
            activate_after(|host| fs::write(host.var("lib/flameholder/active"), unreadable).unwrap());
        assert!(activated.stderr.contains("/var/lib/flameholder/active"), "{activated:?}");
        assert_eq!(host.read_var("lib/flameholder/active.unreadable").as_deref(), Some(unreadable));
        let again = activate(&host);
        assert!(again.code == Some(0) && again.stderr.is_empty(), "{again:?}");
    }
}

#[test]
fn confirmed_generation_with_unreadable_record_serves() {
    for unreadable in ["{\"schema\":0}\n", "{", ""] {
        let (_, activated) =
            activate_after(|host| fs::write(host.etc("flameholder/generation"), unreadable).unwrap());
        assert!(activated.stderr.contains("generation record"), "{activated:?}");
    }
}

#[test]
fn read_only_file_system_below_var_does_not_stop_the_workload() {
    let host = host_with_config();
    remove(&host.var("usrlocal/bin/tool"));
    remove(&host.var(CONFIG));
    host.shut_down();
    host.boot_kernel(0);
    let script =
        "mount --bind /var/home /var/home && mount -o remount,bind,ro /var/home && flameholder activate";
    let activated = host.run(["sh", "-c", script]);
    assert!(activated.code == Some(0) && host.workload_starts(), "{activated:?}");
    assert!(activated.stderr.contains("/var/home/core/app/cfg"), "{activated:?}");
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
}

#[test]
fn unconfirmed_generation_fails_closed_and_is_rolled_back() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(config("two").json()), None);
    host.shut_down();
    fs::create_dir_all(host.var(CONFIG)).unwrap();
    fs::write(host.var(CONFIG).join("y"), "").unwrap();
    host.boot_kernel(0);
    let activated = host.run(["flameholder", "activate"]);
    assert!(activated.code == Some(1) && !host.workload_starts(), "{activated:?}");
    let checked = host.run(["flameholder", "confirm-boot"]);
    assert!(checked.stderr.contains("rebooting: "), "{checked:?}");
    host.power_cut();
    host.boot().assert_success();
    assert!(host.workload_starts());
    assert_config(&host, "one", "two");
}

#[test]
fn unconfirmed_generation_serves_after_its_activation() {
    for has_pending in [true, false] {
        let host = confirmed_host("one");
        host.stage_update(&host.config(config("two").json()), None);
        host.shut_down();
        host.boot_kernel(0);
        assert!(!host.workload_starts());
        if !has_pending {
            // A backup of /var was restored.
            remove(&host.var("lib/flameholder"));
        }
        host.run_ok(["flameholder", "activate"]);
        assert!(host.workload_starts() && host.etc("flameholder/unconfirmed").exists());
        assert_config(&host, "two", "one");
        host.run_ok(["flameholder", "confirm-boot"]);
        assert!(!host.etc("flameholder/unconfirmed").exists());
        assert_drift(&host, &[]);
    }
}

/// Text of the agent's drop-in for a unit; `None` without one.
fn gate(host: &Host, unit: &str) -> Option<String> {
    host.read_etc(&format!("systemd/system/{unit}.d/50-flameholder.conf"))
}

#[test]
fn workload_of_the_settings_waits_for_the_activation() {
    let host = confirmed_host("one");
    for unit in ["kubelet-dependencies.target", "kubelet.service", "crio.service"] {
        let gate = gate(&host, unit).unwrap();
        assert!(gate.contains("ConditionPathExists=|!/etc/flameholder/unconfirmed\n"), "{unit}: {gate}");
    }
    let settings = "[boot-check]\nworkload = [\"app-two.service\", \"k3s.service\"]\n";
    let config = full_config("two").file_with_mode("/etc/flameholder/config.d/10-x.toml", 0o644, settings);
    let trigger = "[Unit]\nConditionPathExists=|/etc/k3s\n";
    let config = config.file_with_mode("/etc/systemd/system/k3s.service.d/x.conf", 0o644, trigger);
    host.update(&host.config(config.json()), None);
    assert_eq!(gate(&host, "kubelet.service"), None);
    assert!(!host.etc("systemd/system/crio.service.d").exists());
    assert!(gate(&host, "app-two.service").unwrap().contains("\nConditionPathExists=|"));
    let own_triggers = gate(&host, "k3s.service").unwrap();
    assert!(own_triggers.contains("ExecCondition=+sh -c 'test ! -e /etc/flameholder/unconfirmed"));
    assert_drift(&host, &[]);
    // A generation without the setting has the default again.
    host.update(&host.config(full_config("three").json()), None);
    let gates = ["kubelet.service", "k3s.service"].map(|unit| gate(&host, unit).is_some());
    assert_eq!(gates, [true, false]);
}

#[test]
fn mark_copied_into_another_deployment_means_nothing() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(config("two").json()), None);
    host.shut_down();
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
    let mark = fs::read(host.etc("flameholder/unconfirmed")).unwrap();
    host.run_ok(["flameholder", "confirm-boot"]);
    host.shut_down();
    host.boot_kernel(1);
    fs::write(host.etc("flameholder/unconfirmed"), mark).unwrap();
    host.run_ok(["flameholder", "activate"]);
    assert!(host.workload_starts() && !host.etc("flameholder/unconfirmed").exists());
    assert_config(&host, "one", "two");
}

#[test]
fn users_can_cause_a_report_but_no_refusal() {
    let host = confirmed_host("one");
    for path in ["home/core", "home/core/app"] {
        fs::create_dir_all(host.var(path)).unwrap();
        chown(host.var(path), Some(1000), Some(1000)).unwrap();
    }
    host.stage_update(&host.config(config("two").json()), None);
    host.shut_down();
    // The owner of the directory is in the way of the new generation.
    fs::create_dir(host.var(CONFIG)).unwrap();
    fs::write(host.var(CONFIG).join("y"), "").unwrap();
    let boot = host.boot().assert_success();
    assert!(boot.activate.stderr.contains("/var/home/core/app/cfg"), "{boot:?}");
    assert!(host.workload_starts() && boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
    assert_config(&host, "two", "one");
    assert_drift(&host, &[&format!("/var/{CONFIG}")]);
    let verify = |host: &Host| {
        let request = r#"{"job":{"Verify":{"held_back":[]}},"profile":"native","document":0,"policy":null}"#;
        host.run(["sh", "-c", &format!("echo '{request}' | flameholder work")])
    };
    let verified = verify(&host);
    assert!(verified.stdout.contains("\"Verified\""), "{verified:?}");
    // Nor can a link of the owner, which root does not follow.
    host.update(&host.config(config("three").json()), None);
    assert_config(&host, "three", "two");
    remove(&host.var("home/core/app"));
    symlink("/etc", host.var("home/core/app")).unwrap();
    lchown(host.var("home/core/app"), Some(1000), Some(1000)).unwrap();
    assert_drift(&host, &[&format!("/var/{CONFIG}")]);
    host.update(&host.config(config("four").json()), None);
    assert_config(&host, "four", "three");
    assert!(!host.etc("cfg").exists());
    // Where only root can write, drift blocks.
    fs::write(host.etc("app/a.conf"), "changed").unwrap();
    let verified = verify(&host);
    assert!(
        verified.stdout.contains("Drifted") && verified.stdout.contains("/etc/app/a.conf"),
        "{verified:?}"
    );
}

/// Declare `/var/home` as a mount of this boot, as systemd-fstab-generator does.
fn declare_mount(host: &Host) {
    let requires = host.path("run/systemd/generator/local-fs.target.requires");
    fs::create_dir_all(&requires).unwrap();
    symlink("../var-home.mount", requires.join("var-home.mount")).unwrap();
}

/// The command after the mount of `/var/home`, which has the files of `/var/disk`.
fn after_the_mount(command: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), format!("mount --bind /var/disk /var/home && {command}")]
}

#[test]
fn files_below_a_mount_are_put_in_place_after_it() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(config("two").json()), None);
    host.shut_down();
    fs::create_dir_all(host.var("disk/core")).unwrap();
    host.boot_kernel(0);
    declare_mount(&host);
    let early = host.run(["flameholder", "activate"]);
    assert!(early.code == Some(0) && early.stdout.contains("files below /var/home wait"), "{early:?}");
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"), "the others do not wait");
    assert!(!host.var(CONFIG).exists(), "nothing is written beneath the mount");
    assert!(!host.workload_starts() && host.path("run/flameholder/awaits-mounts").exists());
    let late = host.run(after_the_mount("flameholder activate --after-mounts"));
    assert!(late.code == Some(0) && host.workload_starts(), "{late:?}");
    assert_eq!(host.read_var("disk/core/app/cfg").as_deref(), Some("two"));
    assert!(!host.var(CONFIG).exists());
    let confirmed = host.run(after_the_mount("flameholder confirm-boot"));
    assert!(confirmed.stdout.contains("is confirmed"), "{confirmed:?}");
    // In the next boot nothing has to be written.
    host.power_cut();
    host.boot_kernel(0);
    declare_mount(&host);
    let early = host.run(["flameholder", "activate"]);
    assert!(early.code == Some(0) && host.workload_starts(), "{early:?}");
    let late = host.run(after_the_mount("flameholder activate --after-mounts && flameholder verify"));
    assert!(late.code == Some(0) && late.stdout.contains("nothing to do"), "{late:?}");
}

#[test]
fn file_that_only_the_generation_before_had_is_removed_below_a_mount() {
    let host = confirmed_host("one");
    host.update(&host.config(config("two").json()), None);
    assert_eq!(host.read_var(CONFIG).as_deref(), Some("two"));
    host.stage_update(&host.config(full_config("three").json()), None);
    host.shut_down();
    // From now on `/var/home` is a mount.
    fs::rename(host.var("home"), host.var("disk")).unwrap();
    fs::create_dir(host.var("home")).unwrap();
    for _ in 0..2 {
        host.boot_kernel(0);
        declare_mount(&host);
        host.run_ok(["flameholder", "activate"]);
        assert_eq!(host.read_var("disk/core/app/cfg").as_deref(), Some("two"));
        host.power_cut();
    }
    host.boot_kernel(0);
    declare_mount(&host);
    host.run_ok(["flameholder", "activate"]);
    let late = host.run(after_the_mount("flameholder activate --after-mounts"));
    assert!(late.code == Some(0) && late.stderr.is_empty(), "{late:?}");
    assert_eq!(host.read_var("disk/core/app/cfg"), None);
}

#[test]
fn mount_that_is_never_made_fails_only_an_unconfirmed_generation() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(config("two").json()), None);
    host.shut_down();
    host.boot_kernel(0);
    declare_mount(&host);
    host.run_ok(["flameholder", "activate"]);
    let late = host.run(["flameholder", "activate", "--after-mounts"]);
    assert!(late.code == Some(1) && late.stderr.contains("/var/home, which is not mounted"), "{late:?}");
    assert!(!host.workload_starts() && !host.var(CONFIG).exists());
    // The mount is gone from fstab, the generation is confirmed, and it comes back.
    fs::remove_dir_all(host.path("run/systemd")).unwrap();
    host.run_ok(["flameholder", "activate"]);
    host.run_ok(["flameholder", "confirm-boot"]);
    host.power_cut();
    host.boot_kernel(0);
    declare_mount(&host);
    host.run_ok(["flameholder", "activate"]);
    let late = host.run(["flameholder", "activate", "--after-mounts"]);
    assert!(late.code == Some(0) && late.stderr.contains("waits for the mount of /var/home"), "{late:?}");
    assert!(host.workload_starts());
}
