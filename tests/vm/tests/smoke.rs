//! Smoke tests of the harness: hosts start, reboot, lose power, and can be observed.

use anyhow::{Result, ensure};
use vm::config::Config;
use vm::operator::{apply, ensure_unsigned_is_refused, require_signatures, status};
use vm::{HostOrigin, scenario};

const MOMENTS: [&str; 6] = ["generator", "early", "sysinit", "network-pre", "basic", "multi-user"];

#[test]
fn fresh_host_runs_commands() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        assert_eq!(host.run_ok("cat /usr/lib/os-version")?, "1\n");
        assert_eq!(host.run("exit 3")?.code, 3);
        Ok(())
    })
}

#[test]
fn file_is_written_and_read_back_unchanged() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251).to_le_bytes()[0]).collect();
        host.write("/var/tmp/bytes", &bytes)?;
        assert!(host.read("/var/tmp/bytes")? == bytes);
        Ok(())
    })
}

#[test]
fn reboot_starts_new_boot_in_which_every_reader_saw_its_files() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        for path in ["/etc/witness", "/usr/local/witness", "/var/witness"] {
            host.write(path, format!("in {path}"))?;
        }
        let before = host.boot_id()?;
        host.reboot()?;
        let boot = host.boot_id()?;
        assert_ne!(before, boot);
        let witnesses = host.witnesses()?;
        for moment in MOMENTS {
            let witness = witnesses.get(moment).ok_or_else(|| anyhow::anyhow!("no record of {moment}"))?;
            assert_eq!(witness.boot, boot, "{moment}");
            assert_eq!(witness.seen["/etc/witness"].as_deref(), Some("in /etc/witness"), "{moment}");
            // `/var` is not mounted when generators run.
            let expected = (moment != "generator").then_some("in /var/witness");
            assert_eq!(witness.seen["/var/witness"].as_deref(), expected, "{moment}");
        }
        let kubelet = host.run_ok("tail -n 1 /var/log/kubelet-stand-in")?;
        assert!(kubelet.contains(&boot) && kubelet.contains("os=1"), "{kubelet}");
        Ok(())
    })
}

#[test]
fn host_boots_after_power_cut_with_synced_data() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        host.run_ok("echo kept > /var/kept && sync")?;
        let before = host.boot_id()?;
        host.power_cut();
        ensure!(host.run("true").is_err(), "a host without power answers");
        host.power_on()?;
        assert_ne!(host.boot_id()?, before);
        assert_eq!(host.run_ok("cat /var/kept")?, "kept\n");
        Ok(())
    })
}

#[test]
fn executables_start() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        let version = host.run_ok("flameholder --version")?;
        assert!(version.starts_with("flameholder "), "{version}");
        // Without a client the worker ends at once.
        host.run_ok("/usr/libexec/flameholder/flameholder-ostree < /dev/null")?;
        Ok(())
    })
}

#[test]
fn registry_answers_only_while_it_runs() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        let image = host.image(2)?;
        let inspect = format!("skopeo inspect --raw --retry-times=0 docker://{image}");
        ensure!(host.run(&inspect)?.code != 0, "a registry that does not run answers");
        host.registry().start()?;
        host.run_ok(&inspect)?;
        host.registry().stop();
        ensure!(host.run(&inspect)?.code != 0, "a registry that was stopped answers");
        Ok(())
    })
}

#[test]
fn signed_image_is_staged_and_an_unsigned_one_refused() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        require_signatures(host)?;
        host.registry().start()?;
        ensure_unsigned_is_refused(host)?;
        let signed = Config::named("signed").image(&host.image(2)?);
        apply(host, &signed, "--locked")?;
        let pending = status(host)?["pending"].clone();
        assert_eq!(pending["config"], "signed", "{pending:#}");
        let text = host.run_ok("flameholder status")?;
        assert!(
            text.contains("verified by skopeo: a GPG signature by /etc/pki/os-gpg.pub, and a sigstore"),
            "{text}"
        );
        Ok(())
    })
}

#[test]
fn saved_host_resumes_in_other_scenarios() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        host.run_ok("echo prepared > /run/prepared")?;
        host.save_as("prepared")
    })?;
    for _ in 0..2 {
        scenario(HostOrigin::Saved("prepared".into()), |host| {
            assert_eq!(host.run_ok("cat /run/prepared")?, "prepared\n");
            host.run_ok("rm /run/prepared")?;
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn state_hash_covers_generation_and_no_times() -> Result<()> {
    scenario(HostOrigin::Fresh, |host| {
        let before = host.state_hash()?;
        host.run_ok("touch /etc/hostname /var/elsewhere")?;
        assert_eq!(host.state_hash()?, before);
        host.run_ok("chmod 600 /etc/hostname")?;
        assert_ne!(host.state_hash()?, before);
        Ok(())
    })
}
