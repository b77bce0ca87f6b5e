//! Boot entries through a series of configs: the configs' arguments in the listed order and number, foreign arguments
//! in their places.

use osimage::{Os, SysrootBuilder};
use testbed::offline::{Host, small_config};

const INSTALLED: [&str; 5] =
    ["root=LABEL=root", "rw", "console=ttyS0", "foreign=\"a b\"", "mitigations=auto"];

fn installed() -> Host {
    let builder = SysrootBuilder::new(Os::new(1));
    Host::of(&INSTALLED[3..].iter().fold(builder, |builder, argument| builder.kernel_argument(argument)))
}

#[test]
fn config_arguments_change_while_foreign_ones_stay() {
    let host = installed();
    let (commit, _) = host.default().id();
    let series: [&[&str]; 7] = [
        &["nosmt", "hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=512"],
        &["hugepagesz=2M", "hugepages=512", "hugepagesz=1G", "hugepages=4", "nosmt"],
        &["console=tty0", "nosmt", "console=tty0"],
        &["dyndbg=\"file a.c +p; file b.c +p\"", "one two", "  spaced  "],
        &["one"],
        &[],
        &["nosmt", "hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=512"],
    ];
    let mut generations = Vec::new();
    for (step, listed) in series.into_iter().enumerate() {
        let desired = host.config(&small_config(&format!("step-{step}"), &[], listed));
        let entry = host.update(&desired, None);
        let wanted: Vec<String> = listed.iter().flat_map(|line| testbed::boot::words(line)).collect();
        let found = entry.plain_arguments();
        assert_eq!(found[..INSTALLED.len()], INSTALLED, "foreign ones in step {step}");
        assert_eq!(found[INSTALLED.len()..], wanted, "the config's in step {step}");
        assert_eq!(entry.id().0, commit);
        assert!(!generations.contains(&entry.generation()), "each step is a generation of its own");
        generations.push(entry.generation());
    }
}

#[test]
fn argument_change_alters_boot_entry_and_record_only() {
    let host = installed();
    let first = host.update(&host.config(&small_config("same", &[("/etc/managed.conf", "1\n")], &[])), None);
    let second =
        host.update(&host.config(&small_config("same", &[("/etc/managed.conf", "1\n")], &["quiet"])), None);
    assert_ne!(first.root, second.root);
    let [first, second] = [first, second].map(|entry| crate::etc::found(&entry.root));
    assert_eq!(crate::etc::differences(&second, &first), [""; 0]);
}
