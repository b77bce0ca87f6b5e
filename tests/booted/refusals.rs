//! Configs that a running host refuses before it stages anything.

use std::fs;

use osimage::Os;
use serde_json::Value;
use testbed::booted::config::Config;
use testbed::booted::host::Host;
use testbed::model::run::Outcome;

/// Runs `apply` without a reboot; it must fail, name these words and stage nothing.
pub(crate) fn assert_refused(host: &Host, config: &Config, image: Option<&str>, words: &[&str]) {
    let desired = host.config(config.json());
    let image: Vec<&str> = image.iter().flat_map(|image| ["--os-image", image]).collect();
    let command = ["flameholder", "apply", "--locked", "--desired", &desired];
    let outcome: Outcome = host.run([command.as_slice(), &image].concat());
    assert!(outcome.code.is_some_and(|code| code == 1 || code == 78), "{words:?}: {outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word} in {outcome:?}");
    }
    assert!(!host.is_staged(), "{words:?}: {outcome:?}");
    assert_eq!(host.status()["pending"], Value::Null, "{words:?}");
}

fn with_file(path: &str) -> Config {
    Config::new("rendered-one", &[("/etc/app/a.conf", "one"), (path, "one")])
}

#[test]
fn path_that_cannot_be_written_is_refused_before_staging() {
    let host = Host::install(Os::new(1));
    for path in ["/site/x", "/toplevel", "/usr/lib/x", "/proc/x", "/sys/x", "/dev/x", "/boot/x", "/ostree/x"]
    {
        assert_refused(&host, &with_file(path), None, &["spec.config.storage.files[1].path", path]);
    }
    let image = host.image(&Os::new(2));
    assert_refused(&host, &with_file("/site/x"), Some(&image), &["/site/x", "the OS image lacks"]);
    let image = host.image(&Os::new(3).linking("site"));
    host.update(&host.config(with_file("/site/x").json()), Some(&image));
    assert_eq!(host.read_var("site/x").as_deref(), Some("one"));
}

#[test]
fn obstruction_behind_a_link_of_the_new_image_is_refused_before_the_reboot() {
    let host = Host::install(Os::new(1));
    fs::create_dir_all(host.var("site/x")).unwrap();
    fs::write(host.var("site/x/y"), "").unwrap();
    let image = host.image(&Os::new(3).linking("site"));
    assert_refused(&host, &with_file("/site/x"), Some(&image), &["/site/x", "directory"]);
}

#[test]
fn image_without_the_agent_that_this_one_has_is_refused_before_the_reboot() {
    let with_agent = |os: u32| Os::new(os).with_agent(env!("CARGO_PKG_VERSION"), true);
    let host = Host::install(with_agent(1));
    let (config, image) = (with_file("/etc/app/b.conf"), host.image(&Os::new(2)));
    assert_refused(&host, &config, Some(&image), &["has no agent", "add the agent to the image"]);
    let image = host.image(&with_agent(3));
    host.update(&host.config(config.json()), Some(&image));
}

#[test]
fn config_that_takes_the_agent_away_is_refused() {
    let host = Host::install(Os::new(1));
    for (path, word) in [
        ("/etc/passwd", "spec.config.passwd"),
        ("/usr/local/bin/flameholder", "executable"),
        ("/etc/systemd/system/flameholder-activate.service", "a unit of the agent"),
        ("/etc/systemd/system/ostree-finalize-staged.service.d/99-x.conf", "finalizes"),
        ("/etc/flameholder/config.d/10-x.toml", "line 1"),
    ] {
        assert_refused(&host, &with_file(path), None, &["spec.config.storage.files[1]", path, word]);
    }
}
