//! Fetches of several layers at a time from a registry.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use flameholder::core::values::image::ImageRef;
use flameholder::os::worker::WorkerProgram;
use flameholder::os::{ImportedCommit, OsError, PullFailure, Sysroot as _};
use osimage::{ImageRegistry, Os, RegistryAnswers, SysrootBuilder};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use testbed::worker::{Host, program, worker_after};

/// Setting of the number of layers fetched at a time.
const PARALLEL: &str = "FLAMEHOLDER_PARALLEL_FETCHES";

/// Host, and another image in the layout `v2` with its digest.
fn host() -> (Host, String) {
    let host = Host::of(&SysrootBuilder::new(Os::new(1)));
    let digest = osimage::write_image(&Os::new(2).with_selinux(), &host.path("v2"), None).unwrap();
    (host, digest)
}

fn registry(host: &Host, answers: RegistryAnswers) -> ImageRegistry {
    let registry = ImageRegistry::start(answers).unwrap();
    registry.write_home(&host.path("home")).unwrap();
    registry
}

fn from(registry: &ImageRegistry, digest: &str) -> ImageRef {
    format!("{}/os@{digest}", registry.address()).parse().unwrap()
}

fn worker(host: &Host) -> WorkerProgram {
    program().with_env("HOME", host.path("home"))
}

fn import(host: &Host, program: &WorkerProgram, image: &ImageRef) -> Result<ImportedCommit, OsError> {
    host.write_with(program).unwrap().import(&image.clone().into(), &mut |_| ())
}

fn failure(outcome: Result<ImportedCommit, OsError>) -> (PullFailure, String) {
    let Err(OsError::Pull { reason, source, .. }) = outcome else { panic!("{outcome:?}") };
    (reason, source.to_string())
}

/// Refs of the repository, each with its commit.
fn refs(host: &Host) -> BTreeSet<String> {
    let heads = host.sysroot().join("ostree/repo/refs/heads");
    let commit = |name: &String| fs::read_to_string(heads.join(name)).unwrap();
    files(&heads).iter().map(|name| format!("{name} {}", commit(name).trim())).collect()
}

fn layer_refs(host: &Host) -> usize {
    refs(host).iter().filter(|name| name.starts_with("ostree/container/blob")).count()
}

/// Files below a directory, relative to it.
fn files(directory: &Path) -> BTreeSet<String> {
    let listed =
        Command::new("find").arg(directory).args(["-type", "f", "-printf", "%P\\n"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Digests of an image's layers.
fn layers(layout: &Path, digest: &str) -> Vec<String> {
    let manifest = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    layers.map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

/// Layers that the repository lacks.
fn missing(host: &Host, layers: &[String]) -> BTreeSet<String> {
    let present = refs(host);
    let is_present = |layer: &String| {
        let name = format!("ostree/container/blob/{} ", layer.replace(':', "_3A_"));
        present.iter().any(|line| line.starts_with(&name))
    };
    layers.iter().filter(|layer| !is_present(layer)).cloned().collect()
}

/// Child processes of a process, and theirs.
fn descendants(of: u32) -> Vec<(i32, String)> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|number| number.parse::<i32>().unwrap());
    children
        .flat_map(|child| {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            let mut found = descendants(child.cast_unsigned());
            found.insert(0, (child, name.trim().to_owned()));
            found
        })
        .collect()
}

#[test]
fn layers_are_fetched_at_the_same_time() {
    let (host, digest) = host();
    let count = missing(&host, &layers(&host.path("v2"), &digest)).len();
    assert!(count > 2);
    // It sends no layer before it is asked for all of them.
    let registry = registry(&host, RegistryAnswers::Gathering(host.path("v2"), count));
    // How much is free on the disk of the tests is unknown.
    let program = worker_with_free(&host, 32 * 1024);
    let imported = import(&host, &program, &from(&registry, &digest)).unwrap();
    assert_eq!(imported.layers_fetched, count);
    assert_eq!(imported.manifest_digest.as_deref(), Some(digest.as_str()));
}

/// Layers and objects of the repository, and names of its images. The commits of two imports of the same image differ:
/// their metadata is in no certain order.
fn stored(host: &Host, registry: &ImageRegistry) -> [BTreeSet<String>; 3] {
    let address = registry.address().to_string().replace('.', "_2E_").replace(':', "_3A_");
    let refs = refs(host);
    let layers = refs.iter().filter(|line| line.starts_with("ostree/container/blob")).cloned();
    let images = refs.iter().filter(|line| line.starts_with("ostree/container/image"));
    let images =
        images.filter_map(|line| line.split(' ').next()).map(|name| name.replace(&address, "REGISTRY"));
    let objects = files(&host.sysroot().join("ostree/repo/objects")).into_iter();
    [layers.collect(), images.collect(), objects.filter(|name| !name.ends_with(".commit")).collect()]
}

#[test]
fn result_is_that_of_fetching_one_layer_after_the_other() {
    let [one_by_one, together] = ["1", "6"].map(|number| {
        let (host, digest) = host();
        let registry = registry(&host, RegistryAnswers::Layout(host.path("v2")));
        let program = worker(&host).with_env(PARALLEL, number);
        let imported = import(&host, &program, &from(&registry, &digest)).unwrap();
        let asked: BTreeSet<_> = registry.blobs().into_iter().collect();
        let stored = stored(&host, &registry);
        (ImportedCommit { commit: String::new(), ..imported }, stored, asked)
    });
    let [_, images, _] = &one_by_one.1;
    assert!(images.iter().any(|name| name.contains("REGISTRY")), "{images:?}");
    assert_eq!(together, one_by_one);
}

#[test]
fn each_missing_layer_is_asked_for_once_and_no_other() {
    let (host, digest) = host();
    let first = osimage::write_image(&Os::new(3).with_selinux(), &host.path("v3"), None).unwrap();
    let earlier = registry(&host, RegistryAnswers::Layout(host.path("v3")));
    import(&host, &worker(&host), &from(&earlier, &first)).unwrap();
    let registry = registry(&host, RegistryAnswers::Layout(host.path("v2")));
    let wanted = layers(&host.path("v2"), &digest);
    let missing = missing(&host, &wanted);
    let imported = import(&host, &worker(&host), &from(&registry, &digest)).unwrap();

    assert!(missing.len() > 1 && missing.len() < wanted.len(), "{missing:?}");
    assert_eq!(imported.layers_fetched, missing.len());
    let mut asked = registry.blobs();
    asked.retain(|blob| wanted.contains(blob));
    asked.sort();
    assert_eq!(asked, missing.into_iter().collect::<Vec<_>>());

    let again = import(&host, &worker(&host), &from(&registry, &digest)).unwrap();
    assert_eq!((again.layers_fetched, again.commit), (0, imported.commit));
}

/// Change a byte of each layer of an image, and return their digests.
fn corrupt(layout: &Path, digest: &str) -> Vec<String> {
    let layers = layers(layout, digest);
    for layer in &layers {
        let path = layout.join("blobs").join(layer.replace(':', "/"));
        let mut bytes = fs::read(&path).unwrap();
        // Gzip's trailing checksum: the tar inside stays readable.
        let last = bytes.len() - 5;
        bytes[last] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    layers
}

#[test]
fn corrupt_layer_is_named_and_not_kept() {
    for number in ["1", "6"] {
        let (host, digest) = host();
        let before = layer_refs(&host);
        let layers = corrupt(&host.path("v2"), &digest);
        let registry = registry(&host, RegistryAnswers::Layout(host.path("v2")));
        let program = worker(&host).with_env(PARALLEL, number);
        let (reason, cause) = failure(import(&host, &program, &from(&registry, &digest)));
        assert_eq!(reason, PullFailure::Corrupt, "{cause}");
        assert!(layers.iter().any(|layer| cause.contains(layer)), "{cause}");
        assert_eq!(layer_refs(&host), before);
    }
}

#[test]
fn corrupt_layer_of_a_local_image_is_not_kept() {
    let (host, digest) = host();
    let before = layer_refs(&host);
    corrupt(&host.path("v2"), &digest);
    let (reason, cause) = failure(import(&host, &program(), &host.layout("v2")));
    assert_eq!(reason, PullFailure::Corrupt, "{cause}");
    assert_eq!(layer_refs(&host), before);
}

#[test]
fn layer_that_a_killed_import_left_unverified_is_fetched_again() {
    let (host, digest) = host();
    let wanted = missing(&host, &layers(&host.path("v2"), &digest));
    let program = worker(&host).with_env(PARALLEL, "1");
    // While the third layer stalls, the second may still be verified, and the first is.
    let registry = registry(&host, RegistryAnswers::Stalling(host.path("v2"), 3));
    let ((), outcome) = stalled(&host, &program, &registry, &digest, |worker| {
        kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::KILL).unwrap();
    });
    assert!(matches!(outcome, Err(OsError::WorkerDied { .. })), "{outcome:?}");
    drop(registry);
    let left: Vec<_> = missing(&host, &wanted.iter().cloned().collect::<Vec<_>>()).into_iter().collect();
    assert!(!left.is_empty() && left.len() < wanted.len(), "{left:?} of {wanted:?}");
    // The kill can come between the last byte of a layer and its verification, when it is stored already: so did this one,
    // perhaps, for the layer that the record does not name as verified.
    let record = host.sysroot().join("ostree/repo/extensions/flameholder/unverified-layers");
    let record = fs::read_to_string(record).unwrap();
    let is_verified = |digest: &str| {
        record.contains(&format!("verified ostree/container/blob/{}\n", digest.replace(':', "_3A_")))
    };
    let fetched_again: Vec<_> =
        wanted.iter().filter(|digest| left.contains(*digest) || !is_verified(digest)).cloned().collect();
    assert!(fetched_again.len() < wanted.len(), "no layer was verified: {record}");
    store_wrong_layer(&host, &left[0]);

    let registry = self::registry(&host, RegistryAnswers::Layout(host.path("v2")));
    import(&host, &program, &from(&registry, &digest)).unwrap();
    let mut asked = registry.blobs();
    asked.retain(|blob| wanted.contains(blob));
    asked.sort();
    assert_eq!(asked, fetched_again);
}

/// Store the tree of the host as the layer with this digest.
fn store_wrong_layer(host: &Host, digest: &str) {
    let name = format!("ostree/container/blob/{}", digest.replace(':', "_3A_"));
    let mut create = Command::new("ostree");
    create.args(["refs", "--repo"]).arg(host.sysroot().join("ostree/repo"));
    create.arg(format!("--create={name}")).arg(host.default().id.commit);
    assert!(create.status().unwrap().success());
}

#[test]
fn no_layer_is_taken_for_verified_after_the_record_was_damaged() {
    let (host, digest) = host();
    let layers = layers(&host.path("v2"), &digest);
    let wrong = missing(&host, &layers).into_iter().next().unwrap();
    store_wrong_layer(&host, &wrong);
    let record = host.sysroot().join("ostree/repo/extensions/flameholder/unverified-layers");
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(&record, b"\xff\n").unwrap();
    let registry = registry(&host, RegistryAnswers::Layout(host.path("v2")));
    import(&host, &worker(&host), &from(&registry, &digest)).unwrap();
    assert!(registry.blobs().contains(&wrong));
    assert!(!record.exists());
}

#[test]
fn layer_that_is_cut_off_is_named_and_fetched_again() {
    let (host, digest) = host();
    let registry = registry(&host, RegistryAnswers::Truncating(host.path("v2")));
    let (reason, cause) = failure(import(&host, &worker(&host), &from(&registry, &digest)));
    assert_eq!(reason, PullFailure::Unreachable, "{cause}");
    let layers = layers(&host.path("v2"), &digest);
    assert!(layers.iter().any(|layer| cause.contains(layer)), "{cause}");
}

/// Runs an import until the registry stops in the middle of a layer, and returns what `meanwhile` does then with the
/// worker's process number.
fn stalled<T: Send>(
    host: &Host,
    program: &WorkerProgram,
    registry: &ImageRegistry,
    digest: &str,
    meanwhile: impl FnOnce(u32) -> T + Send,
) -> (T, Result<ImportedCommit, OsError>) {
    let image = from(registry, digest);
    let mut session = host.write_with(program).unwrap();
    let process = session.process_id();
    std::thread::scope(|scope| {
        let done = scope.spawn(move || {
            registry.wait_for_stall();
            meanwhile(process)
        });
        let outcome = session.import(&image.into(), &mut |_| ());
        (done.join().unwrap(), outcome)
    })
}

#[test]
fn killed_worker_leaves_neither_files_nor_processes() {
    let (host, digest) = host();
    let repo = host.sysroot().join("ostree/repo");
    let before = files(&repo.join("tmp"));
    let registry = registry(&host, RegistryAnswers::Stalling(host.path("v2"), 2));
    let (processes, outcome) = stalled(&host, &worker(&host), &registry, &digest, |worker| {
        let found = descendants(worker);
        let open = |(process, _): &(i32, _)| {
            let pid = Pid::from_raw(*process).unwrap();
            pidfd_open(pid, PidfdFlags::empty()).unwrap()
        };
        let handles: Vec<_> = found.iter().map(open).collect();
        kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::KILL).unwrap();
        (found, handles)
    });
    assert!(matches!(outcome, Err(OsError::WorkerDied { .. })), "{outcome:?}");
    let (names, handles) = processes;
    assert_eq!(names.len(), 2, "relay and skopeo: {names:?}");
    // Skopeo ends at the latest when the registry is gone.
    drop(registry);
    for process in &handles {
        poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
    }
    let left: Vec<_> = files(&repo.join("tmp")).difference(&before).cloned().collect();
    assert!(left.iter().all(|name| !name.contains("sha256")), "{left:?}");

    let registry = self::registry(&host, RegistryAnswers::Layout(host.path("v2")));
    import(&host, &worker(&host), &from(&registry, &digest)).unwrap();
}

#[test]
fn killed_skopeo_or_relay_is_an_error_and_the_next_import_succeeds() {
    for victim in [0, 1] {
        let (host, digest) = host();
        let registry = registry(&host, RegistryAnswers::Stalling(host.path("v2"), 2));
        let (name, outcome) = stalled(&host, &worker(&host), &registry, &digest, |worker| {
            let (process, name) = descendants(worker).remove(victim);
            let process = pidfd_open(Pid::from_raw(process).unwrap(), PidfdFlags::empty()).unwrap();
            pidfd_send_signal(process, Signal::KILL).unwrap();
            name
        });
        let (_, cause) = failure(outcome);
        eprintln!("{name}: {cause}");
        drop(registry);
        let registry = self::registry(&host, RegistryAnswers::Layout(host.path("v2")));
        let imported = import(&host, &worker(&host), &from(&registry, &digest)).unwrap();
        assert_eq!(imported.manifest_digest.as_deref(), Some(digest.as_str()));
    }
}

/// A worker whose sysroot is a copy in memory of this size with so many KiB free.
fn worker_with_free(host: &Host, free: u32) -> WorkerProgram {
    let copy = host.path("copy");
    let script = format!(
        "mkdir {copy}\nmount -t tmpfs -o size=64m tmpfs {copy}\ncp -a {sysroot}/. {copy}\n\
         free=$(df --output=avail -k {copy} | tail -n 1)\nfallocate -l $((free - {free}))KiB {copy}/filler\n\
         mount --bind {copy} {sysroot}",
        copy = copy.display(),
        sysroot = host.sysroot().display(),
    );
    worker_after(host, &script).with_env("HOME", host.path("home"))
}

#[test]
fn full_file_system_is_reported() {
    let (host, digest) = host();
    let registry = registry(&host, RegistryAnswers::Layout(host.path("v2")));
    let outcome = import(&host, &worker_with_free(&host, 64), &from(&registry, &digest));
    assert!(matches!(outcome, Err(OsError::NoSpace { .. })), "{outcome:?}");
}

#[test]
fn signed_image_of_a_registry_is_pulled_as_policy_and_skopeo_allow() {
    const POLICY: &str = "/etc/containers/policy.json";
    const ACCEPTING: &str = r#"{"default": [{"type": "reject"}], "transports": {"docker": {"": [{"type": "insecureAcceptAnything"}]}}}"#;
    let (host, digest) = host();
    let registry = registry(&host, RegistryAnswers::Layout(host.path("v2")));
    let policy = host.path("policy.json");
    fs::write(&policy, ACCEPTING).unwrap();
    let bind = format!("mount --bind {} {POLICY}", policy.display());
    let program = worker_after(&host, &bind).with_env("HOME", host.path("home"));
    let signed: ImageRef =
        format!("ostree-image-signed:docker://{}/os@{digest}", registry.address()).parse().unwrap();
    match import(&host, &program, &signed) {
        Ok(imported) => assert_eq!(imported.manifest_digest.as_deref(), Some(digest.as_str())),
        Err(OsError::Pull { reason, .. }) => {
            assert_eq!(reason, PullFailure::PolicyNotEnforced);
            assert_eq!(registry.blobs(), [""; 0]);
        }
        Err(other) => panic!("{other}"),
    }
}
