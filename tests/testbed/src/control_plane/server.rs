//! Real API servers for the tests, or the one that the environment names.
//!
//! Starting a server takes longer than most tests, so a run shares a few: a test takes one that no other test
//! uses, or starts one if there is none, and empties it. There are at most as many as tests run in parallel.
//! `keeper.sh` ends each after the run, even if a test or its runner is killed.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::preconditions::require_installed;

const KEEPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control_plane/keeper.sh");
/// Environment variable with the API server's executable, which may be compressed by xz.
const EXECUTABLE: &str = "FLAMEHOLDER_TEST_APISERVER";
/// Default path of the executable, relative to the repository.
const BESIDE: &str = "../shared/control-plane/crd-apiserver.xz";
/// Upper limit of parallel tests.
const MOST_SERVERS: usize = 256;
/// Attempts with different ports.
const ATTEMPTS: usize = 5;
/// Longest wait for a server to start.
const START: Duration = Duration::from_secs(90);
/// Time between two checks of a server that starts.
const PAUSE: Duration = Duration::from_millis(50);

/// Group, version and kind of the objects that tests create in a cluster.
const CONTENTS: [[&str; 3]; 8] = [
    ["", "v1", "Node"],
    ["config.openshift.io", "v1", "ClusterVersion"],
    ["machineconfiguration.openshift.io", "v1", "ControllerConfig"],
    ["machineconfiguration.openshift.io", "v1", "MachineConfig"],
    ["machineconfiguration.openshift.io", "v1", "MachineConfigNode"],
    ["machineconfiguration.openshift.io", "v1", "MachineConfigPool"],
    ["machineconfiguration.openshift.io", "v1", "PinnedImageSet"],
    ["operator.openshift.io", "v1", "MachineConfiguration"],
];

/// API server that no other test uses while this value lives.
pub struct ControlPlane {
    pub client: Client,
    /// Lock of the server; `None` if the environment names the server.
    _used: Option<File>,
}

impl ControlPlane {
    /// Take a free server, or start one if all are in use.
    pub async fn start() -> Self {
        if let Some(kubeconfig) = env::var_os("FLAMEHOLDER_TEST_KUBECONFIG") {
            return Self { client: connect(&fs::read_to_string(kubeconfig).unwrap()).await, _used: None };
        }
        require_installed(&["bash", "etcd", "flock", "setpriv", "xz"]);
        let all = folder();
        fs::create_dir_all(&all).unwrap();
        let executable = unpacked(&all);
        let (directory, used) = (0..MOST_SERVERS)
            .find_map(|number| claimed(&all.join(number.to_string())))
            .expect("fewer than 256 tests run in parallel");
        for _ in 0..ATTEMPTS {
            if !is_locked(&directory.join("alive")) {
                launch(&directory, &executable);
            }
            let client = connect(&fs::read_to_string(directory.join("kubeconfig")).unwrap()).await;
            if is_ready(&client, &directory).await {
                define(&client).await;
                empty(&client).await;
                return Self { client, _used: Some(used) };
            }
        }
        panic!("the API server does not start: see apiserver.log and etcd.log in {}", directory.display());
    }
}

/// Folder with the state of the servers for the tests of this build.
fn folder() -> PathBuf {
    let test = env::current_exe().expect("the path of the test's executable is known");
    let target =
        test.ancestors().nth(3).expect("the test lies in a profile's `deps` below the target folder");
    target.join("tmp/control-plane")
}

/// Executable of the API server, unpacked once.
pub(super) fn unpacked(all: &Path) -> PathBuf {
    let beside = crate::repository().join(BESIDE);
    let packed = env::var_os(EXECUTABLE).map_or(beside, PathBuf::from);
    let Ok(metadata) = packed.metadata() else {
        panic!(
            "{} is missing, the API server that this test needs: {EXECUTABLE} names another, \
             FLAMEHOLDER_TEST_KUBECONFIG a cluster",
            packed.display()
        );
    };
    if packed.extension().is_none_or(|extension| extension != "xz") {
        return packed;
    }
    let unpacked = all.join(format!("crd-apiserver-{}", metadata.len()));
    let lock = File::create(all.join("unpack")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    if !unpacked.exists() {
        // Other processes write the file: if a parallel test forked while this process has it open for
        // writing, executing it would fail with "text file busy".
        let script =
            "xz --decompress --stdout \"$1\" > \"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
        let done = Command::new("sh").args(["-c", script, "sh"]).args([&packed, &unpacked]).status();
        assert!(done.unwrap().success(), "cannot unpack {}", packed.display());
    }
    unpacked
}

/// Directory and lock of a server; `None` if another test uses it, or if it is being removed.
fn claimed(directory: &Path) -> Option<(PathBuf, File)> {
    fs::create_dir_all(directory).unwrap();
    let used = File::options().append(true).create(true).open(directory.join("used")).unwrap();
    match flock(&used, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some((directory.to_owned(), used)),
        Err(Errno::WOULDBLOCK) => None,
        Err(error) => panic!("{}: {error}", directory.display()),
    }
}

fn is_locked(path: &Path) -> bool {
    let file = File::options().append(true).create(true).open(path).unwrap();
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Start the keeper and wait until it holds its lock.
fn launch(directory: &Path, executable: &Path) {
    let port = free_port();
    let kubeconfig = kubeconfig(port);
    File::create(directory.join("kubeconfig")).unwrap().write_all(kubeconfig.as_bytes()).unwrap();
    let runner = runner().map(|pid| pid.to_string());
    // In a session of its own: the end of a test also ends its process group.
    let mut setsid = Command::new("setsid");
    setsid.args(["--fork", "bash", KEEPER]).args([directory, executable]).arg(port.to_string()).args(runner);
    setsid.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(setsid.status().unwrap().success());
    let end = Instant::now() + START;
    while !is_locked(&directory.join("alive")) {
        assert!(Instant::now() < end, "the keeper of {} does not start", directory.display());
        std::thread::sleep(PAUSE);
    }
}

/// Kubeconfig for a server at this port of the loopback.
pub(super) fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: local, cluster: {{server: \"https://127.0.0.1:{port}\", \
         insecure-skip-tls-verify: true}}}}]\nusers: [{{name: local, user: {{}}}}]\n\
         contexts: [{{name: local, context: {{cluster: local, user: local}}}}]\ncurrent-context: local\n"
    )
}

/// Process that runs all tests, if there is one: it may start further tests that use the server.
fn runner() -> Option<u32> {
    let parent = parent_id();
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
    name.starts_with("cargo").then_some(parent)
}

/// First of three consecutive free ports.
pub(super) fn free_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let Some(last) = port.checked_add(2) else { continue };
        if (port + 1..=last).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

pub(super) async fn connect(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// True if the server says that it is ready.
pub(super) async fn is_serving(client: &Client) -> bool {
    let request = hyper::Request::get("/readyz").body(Vec::new()).unwrap();
    client.request_text(request).await.is_ok_and(|text| text == "ok")
}

/// Wait until the server answers; false if its keeper ends before.
async fn is_ready(client: &Client, directory: &Path) -> bool {
    let end = Instant::now() + START;
    while Instant::now() < end && is_locked(&directory.join("alive")) {
        if is_serving(client).await {
            return true;
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}

fn api(client: &Client, [group, version, kind]: [&str; 3]) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::all_with(client.clone(), &resource)
}

/// Create the custom resource definitions of the fixtures, and wait until they are served.
pub(super) async fn define(client: &Client) {
    let definitions = api(client, ["apiextensions.k8s.io", "v1", "CustomResourceDefinition"]);
    for entry in fs::read_dir(crate::fixture("crds")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let definition: DynamicObject = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        match definitions.create(&PostParams::default(), &definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{}: {error}", path.display()),
        }
        let name = definition.metadata.name.unwrap();
        let end = Instant::now() + START;
        while !is_established(&definitions.get(&name).await.unwrap()) {
            assert!(Instant::now() < end, "{name} is not served");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_established(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Remove the objects of the last test.
async fn empty(client: &Client) {
    for kind in CONTENTS {
        let objects = api(client, kind);
        objects.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        assert!(
            objects.list(&ListParams::default()).await.unwrap().items.is_empty(),
            "objects of {kind:?} remain"
        );
    }
}
