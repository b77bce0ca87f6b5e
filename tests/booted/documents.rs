//! Documents of the agent that are damaged, or of a newer release, and those of an older one.

use std::fs;

use testbed::booted::config::{assert_config, full_config, unhealthy_config};
use testbed::booted::host::{Host, assert_unlocked, confirmed_host};

/// Contents that this release cannot read.
const UNREADABLE: [&str; 3] = ["", "{\"schema\":9}\n", "0123456789abcdef {\"version\":9}\n"];

/// Stages a present commit with `ostree`, as another program would.
fn stage(host: &Host) {
    let commit = host.booted().id().0;
    host.run_ok(["ostree", "admin", "deploy", "--stage", "--os=fedora-coreos", &commit]);
}

fn overwrite(host: &Host, name: &str, text: &str) {
    fs::write(host.var("lib/flameholder").join(name), text).unwrap();
}

#[test]
fn unreadable_pending_record_stops_neither_updates_nor_rollbacks() {
    for text in UNREADABLE {
        let host = confirmed_host("one");
        overwrite(&host, "pending", text);
        let status = host.status();
        assert_eq!(status["unreadable"][0]["path"], "/var/lib/flameholder/pending", "{status}");
        host.run_ok(["flameholder", "recover"]);
        assert_eq!(host.read_var("lib/flameholder/pending.unreadable").as_deref(), Some(text));
        let status = host.status();
        assert_eq!(status["unreadable"][0]["path"], "/var/lib/flameholder/pending.unreadable", "{status}");
        let printed = host.run_ok(["flameholder", "status"]);
        assert!(printed.contains("pending.unreadable") && !printed.contains("remove"), "{printed}");
        overwrite(&host, "pending", text);
        host.update(&host.config(full_config("two").json()), None);
        assert_config(&host, "two", "one");
        overwrite(&host, "pending", text);
        assert_unlocked(&host.run(["flameholder", "rollback"]));
        host.reboot();
        assert_config(&host, "one", "two");
    }
}

#[test]
fn unreadable_blocked_target_stops_no_update() {
    for text in UNREADABLE {
        let host = confirmed_host("one");
        overwrite(&host, "blocked", text);
        host.update(&host.config(full_config("two").json()), None);
        assert_config(&host, "two", "one");
        assert_eq!(host.read_var("lib/flameholder/blocked.unreadable").as_deref(), Some(text));
    }
}

#[test]
fn unreadable_active_manifest_stops_neither_updates_nor_their_activation() {
    for text in UNREADABLE {
        let host = confirmed_host("one");
        overwrite(&host, "active", text);
        host.stage_update(&host.config(full_config("two").json()), None);
        assert_eq!(host.read_var("lib/flameholder/active.unreadable").as_deref(), Some(text));
        // Again, before the shutdown and before the activation.
        overwrite(&host, "active", text);
        let finalized = host.shut_down().unwrap();
        assert_eq!(finalized.code, Some(0), "{finalized:?}");
        host.boot().assert_success();
        assert_config(&host, "two", "one");
        assert_eq!(host.read_var("lib/flameholder/active.unreadable").as_deref(), Some(text));
        host.assert_no_drift();
    }
}

#[test]
fn lost_manifest_without_a_record_stops_no_update() {
    let host = confirmed_host("one");
    for path in [host.etc("flameholder/generation"), host.etc("machine-config-daemon/currentconfig")] {
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir_all(host.var("lib/flameholder/objects")).unwrap();
    host.update(&host.config(full_config("two").json()), None);
    assert_eq!(host.read_var("usrlocal/bin/tool").as_deref(), Some("two"));
    host.assert_no_drift();
}

#[test]
fn unreadable_record_names_a_way_out_that_works() {
    for text in ["", "{\"schema\":9}\n"] {
        let host = confirmed_host("one");
        host.write_etc("flameholder/generation", text);
        let two = host.config(full_config("two").json());
        let refused = host.apply(&two, None);
        assert!(refused.code == Some(1) && refused.stderr.contains("away to start over"), "{refused:?}");
        fs::remove_file(host.etc("flameholder/generation")).unwrap();
        host.update(&two, None);
        assert_config(&host, "two", "one");
        host.assert_no_drift();
    }
}

#[test]
fn foreign_deployment_is_finalized_whatever_the_pending_record_holds() {
    for text in UNREADABLE {
        let host = confirmed_host("one");
        let before = host.booted();
        stage(&host);
        overwrite(&host, "pending", text);
        host.reboot();
        assert_ne!(host.booted().root, before.root, "the foreign deployment boots");
    }
}

#[test]
fn own_deployment_with_an_unreadable_pending_record_is_not_finalized() {
    let host = confirmed_host("one");
    let before = host.booted();
    host.stage_update(&host.config(full_config("two").json()), None);
    overwrite(&host, "pending", UNREADABLE[1]);
    let finalized = host.shut_down().unwrap();
    assert_eq!(finalized.code, Some(1), "{finalized:?}");
    host.boot().assert_success();
    assert_eq!(host.booted().root, before.root);
    assert_config(&host, "one", "two");
}

#[test]
fn unconfirmed_generation_is_decided_without_its_pending_record() {
    for text in [UNREADABLE[1], "removed"] {
        for is_healthy in [true, false] {
            let config = if is_healthy { full_config("two") } else { unhealthy_config("two") };
            let host = confirmed_host("one");
            host.stage_update(&host.config(config.json()), None);
            host.shut_down();
            if text == "removed" {
                fs::remove_dir_all(host.var("lib/flameholder")).unwrap();
            } else {
                overwrite(&host, "pending", text);
            }
            let boot = host.boot();
            if is_healthy {
                assert!(boot.confirm_boot.stdout.contains("is confirmed"), "{boot:?}");
                assert_config(&host, "two", "one");
                assert!(host.status()["pending"].is_null());
                continue;
            }
            assert!(boot.requests_reboot(), "{boot:?}");
            host.power_cut();
            host.boot().assert_success();
            assert_config(&host, "one", "two");
            assert_eq!(host.status()["blocked"]["config"], "rendered-two");
        }
    }
}

#[test]
fn deployment_staged_with_copied_kernel_arguments_is_foreign() {
    let host = confirmed_host("one");
    host.update(&host.config(full_config("two").json()), None);
    let two = host.booted();
    // An operator boots the older entry, and stages something with the arguments of the default one, as `rpm-ostree
    // kargs` does.
    host.shut_down();
    host.boot_entry(1).assert_success();
    let (commit, generation) = (two.id().0, format!("--karg=flameholder.generation={}", two.generation()));
    let deploy = ["ostree", "admin", "deploy", "--stage", "--os=fedora-coreos", "--karg-none"];
    host.run_ok([&deploy[..], &[&generation, "--karg=added", &commit]].concat());
    let refused = host.apply(&host.config(full_config("three").json()), None);
    assert!(refused.code != Some(0) && refused.stderr.contains("staged"), "{refused:?}");
    assert!(host.is_staged(), "it is discarded");
    host.reboot();
    assert!(host.booted().arguments.contains(&"added".to_owned()), "the foreign deployment boots");
}

#[test]
fn rollback_deployment_is_pinned_until_the_generation_is_confirmed() {
    let host = confirmed_host("one");
    let pinned = |host: &Host| {
        let status = host.status();
        let all = status["deployments"].as_array().unwrap();
        all.iter().filter(|deployment| deployment["pinned"] == true).count()
    };
    assert_eq!(pinned(&host), 0);
    host.stage_update(&host.config(full_config("two").json()), None);
    assert_eq!(pinned(&host), 1);
    // Another config makes the deployment unnecessary, and a third one is staged.
    assert_eq!(host.apply(&host.config(full_config("one").json()), None).code, Some(0));
    assert_eq!(pinned(&host), 0);
    host.stage_update(&host.config(full_config("three").json()), None);
    host.shut_down();
    host.boot_kernel(0);
    host.run_ok(["flameholder", "activate"]);
    assert_eq!((pinned(&host), host.entries().len()), (1, 2));
    // A deployment of another program removes the rollback deployment, unless it is pinned.
    let base = host.entries().remove(1).root;
    let commit = host.booted().id().0;
    host.run_ok(["ostree", "admin", "deploy", "--os=fedora-coreos", &commit]);
    assert!(host.entries().iter().any(|entry| entry.root == base), "{:?}", host.entries());
    host.run_ok(["flameholder", "confirm-boot"]);
    assert_eq!(pinned(&host), 0);
    assert!(!host.var("lib/flameholder/pinned").exists());
}

#[test]
fn pin_of_an_operator_stays() {
    let host = confirmed_host("one");
    host.run_ok(["ostree", "admin", "pin", "0"]);
    host.update(&host.config(full_config("two").json()), None);
    assert_eq!(host.status()["deployments"][1]["pinned"], true);
}

#[test]
fn pin_is_taken_off_after_a_rollback() {
    let host = confirmed_host("one");
    host.stage_update(&host.config(unhealthy_config("two").json()), None);
    host.shut_down();
    assert!(host.boot().requests_reboot());
    host.power_cut();
    host.boot().assert_success();
    assert_config(&host, "one", "two");
    assert!(!host.var("lib/flameholder/pinned").exists());
    let status = host.status();
    assert!(status["deployments"].as_array().unwrap().iter().all(|deployment| deployment["pinned"] == false));
}
