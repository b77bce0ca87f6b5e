//! A sysroot whose `/etc` holds the base tree of each case, and a commit of the next image with its third tree.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use flameholder::os::{DeploymentId, DeploymentOrigin, OsError, Sysroot as _};
use testbed::worker::Host;

use crate::etc_merge::disk;
use crate::etc_merge::draw::Case;

/// The name of the branch that the next image is committed to.
const BRANCH: &str = "next";

/// The sysroot.
pub(crate) struct Bench {
    host: Host,
    merge: DeploymentId,
    commit: String,
}

impl Bench {
    /// A sysroot without local changes: the base tree of each case, and its new tree in the next commit.
    pub(crate) fn with(cases: &[Case]) -> Self {
        let host = Host::new();
        let merge = host.default().id;
        let overlay = host.path("overlay/usr/etc");
        fs::create_dir_all(&overlay).unwrap();
        let bench = Self { commit: merge.commit.clone(), host, merge };
        for case in cases {
            disk::plant_any(&bench.root().join("usr/etc").join(&case.name), case.base.as_ref());
            disk::plant_any(&bench.local(case), case.base.as_ref());
            disk::plant_any(&overlay.join(&case.name), case.new.as_ref());
        }
        let commit = bench.commit_overlay();
        Self { commit, ..bench }
    }

    fn commit_overlay(&self) -> String {
        let committed = Command::new("ostree")
            .arg("commit")
            .arg(format!("--repo={}", self.host.sysroot().join("ostree/repo").display()))
            .arg(format!("--branch={BRANCH}"))
            .arg(format!("--tree=ref={}", self.merge.commit))
            .arg(format!("--tree=dir={}", self.host.path("overlay").display()))
            .output()
            .unwrap();
        assert!(committed.status.success(), "{committed:?}");
        String::from_utf8(committed.stdout).unwrap().trim().to_owned()
    }

    /// The deployment that is merged from.
    pub(crate) fn root(&self) -> PathBuf {
        self.host.root_of(&self.merge)
    }

    fn local(&self, case: &Case) -> PathBuf {
        self.root().join("etc").join(&case.name)
    }

    /// Makes the local changes of this case.
    pub(crate) fn change(&self, case: &Case) {
        disk::clear(&self.local(case));
        disk::plant_any(&self.local(case), case.local.as_ref());
    }

    /// Reverts the local changes of this case.
    pub(crate) fn restore(&self, case: &Case) {
        disk::clear(&self.local(case));
        disk::plant_any(&self.local(case), case.base.as_ref());
    }

    /// Deploys the next commit, and returns the root of the new deployment.
    pub(crate) fn deploy(&self) -> Result<PathBuf, OsError> {
        let request = self.host.request(&self.commit, DeploymentOrigin::MergeDeployment);
        let deployment = self.host.write().deploy(&request)?;
        Ok(self.host.root_of(&deployment.id))
    }
}
