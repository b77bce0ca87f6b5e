//! A real API server of the tests' own, or the one that the environment names.
//!
//! To start one takes longer than most tests, so a run has few: a test takes one that no other uses, starts one where
//! there is none, and empties it. As many are started as tests run at a time. `keeper.sh` ends each after the run, also
//! where a test or its runner is killed.

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    net::TcpListener,
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use kube::{
    Api, Client, Config,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::preconditions::require_installed;

const KEEPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/control_plane/keeper.sh");
/// Names the API server's executable, which may be compressed by xz.
const EXECUTABLE: &str = "FLAMEHOLDER_TEST_APISERVER";
/// Where it is looked for otherwise, relative to the repository.
const BESIDE: &str = "../shared/control-plane/crd-apiserver.xz";
/// More than run at a time.
const MOST_SERVERS: usize = 256;
/// How often other ports are tried.
const ATTEMPTS: usize = 5;
/// Longer than any start takes.
const START: Duration = Duration::from_secs(90);
/// Between two looks at a server that starts.
const PAUSE: Duration = Duration::from_millis(50);

/// What tests put into a cluster: group, version and kind.
const CONTENTS: [[&str; 3]; 4] = [
    ["", "v1", "Node"],
    ["machineconfiguration.openshift.io", "v1", "MachineConfig"],
    ["machineconfiguration.openshift.io", "v1", "MachineConfigNode"],
    ["operator.openshift.io", "v1", "MachineConfiguration"],
];

/// An API server that no other test uses as long as this lives.
pub struct ControlPlane {
    pub client: Client,
    /// None where the environment names the server.
    _used: Option<File>,
}

impl ControlPlane {
    /// Takes one, or starts one where all are in use.
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
            .expect("fewer tests than that run at a time");
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
        panic!("the API server does not start: see {}/apiserver.log and etcd.log there", directory.display());
    }
}

/// Where the servers of this build's tests have their state.
fn folder() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    let target = test.ancestors().nth(3).expect("tests lie in a profile's `deps` below the target folder");
    target.join("tmp/control-plane")
}

/// The API server's executable, unpacked once.
fn unpacked(all: &Path) -> PathBuf {
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
        // By other processes: a child that a parallel test forks while this one writes would keep it busy.
        let script =
            "xz --decompress --stdout \"$1\" > \"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
        let done = Command::new("sh").args(["-c", script, "sh"]).args([&packed, &unpacked]).status();
        assert!(done.unwrap().success(), "{} cannot be unpacked", packed.display());
    }
    unpacked
}

/// The directory and the lock that says that it is in use; none where a test has it, or it is being removed.
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

/// Starts the keeper, and returns once it has its lock.
fn launch(directory: &Path, executable: &Path) {
    let port = free_port();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: local, cluster: {{server: \"https://127.0.0.1:{port}\", \
         insecure-skip-tls-verify: true}}}}]\nusers: [{{name: local, user: {{}}}}]\n\
         contexts: [{{name: local, context: {{cluster: local, user: local}}}}]\ncurrent-context: local\n"
    );
    File::create(directory.join("kubeconfig")).unwrap().write_all(kubeconfig.as_bytes()).unwrap();
    let runner = runner().map(|pid| pid.to_string());
    // In a session of its own: what ends a test ends its process group.
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

/// The process that runs all tests, where there is one: it may start further tests after this.
fn runner() -> Option<u32> {
    let parent = parent_id();
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
    name.starts_with("cargo").then_some(parent)
}

/// The first of three free ports in a row.
fn free_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let Some(last) = port.checked_add(2) else { continue };
        if (port + 1..=last).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

async fn connect(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Waits until it answers; false where it ends instead.
async fn is_ready(client: &Client, directory: &Path) -> bool {
    let end = Instant::now() + START;
    while Instant::now() < end && is_locked(&directory.join("alive")) {
        let request = hyper::Request::get("/readyz").body(Vec::new()).unwrap();
        if client.request_text(request).await.is_ok_and(|text| text == "ok") {
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

/// Defines the custom resources of the fixtures, and waits until they are served.
async fn define(client: &Client) {
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

/// Removes the objects of the test before.
async fn empty(client: &Client) {
    for kind in CONTENTS {
        let objects = api(client, kind);
        objects.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        assert!(objects.list(&ListParams::default()).await.unwrap().items.is_empty(), "{kind:?} are left");
    }
}
