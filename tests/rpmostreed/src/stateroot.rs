//! `…/OSNAME`: methods on a stateroot. Methods that no test needs exist and are refused.
#![allow(clippy::unused_self, reason = "methods of a D-Bus object")]
#![allow(clippy::needless_pass_by_value, reason = "arguments are read from a message")]

use std::collections::HashMap;
use std::sync::Arc;

use zbus::interface;
use zbus::message::Header;
use zbus::zvariant::OwnedValue;

use crate::daemon::{Call, Daemon};
use crate::deployments::Described;
use crate::error::Refusal;
use crate::kargs::{self, KargsChange};
use crate::options::Dict;
use crate::update::Update;
use crate::work::{Cleanup, Finalize, Work};

type Vardict = HashMap<String, OwnedValue>;
/// Name, kind of change and details of a package.
type Difference = (String, u32, Vardict);

pub(crate) struct StaterootObject {
    pub(crate) daemon: Arc<Daemon>,
    pub(crate) name: String,
}

impl StaterootObject {
    async fn begin(
        &self,
        method: &str,
        header: &Header<'_>,
        parameters: &[String],
        work: Work,
    ) -> Result<String, Refusal> {
        let call = Call {
            method,
            sender: header.sender().map(ToString::to_string).unwrap_or_default(),
            path: header.path().map(ToString::to_string).unwrap_or_default(),
            parameters: parameters.join("\n\n"),
        };
        self.daemon.begin(call, work).await
    }

    fn of(&self, position: impl Fn(usize, &Described) -> bool) -> Described {
        let all = self.daemon.deployments();
        let found = all.into_iter().enumerate().find(|(index, one)| position(*index, one));
        found.map(|(_, one)| one).unwrap_or_default()
    }
}

fn is(described: &Described, key: &str) -> bool {
    described.get(key).and_then(|value| bool::try_from(value).ok()).unwrap_or(false)
}

#[interface(name = "org.projectatomic.rpmostree1.OS")]
impl StaterootObject {
    #[zbus(out_args("transaction_address"))]
    async fn update_deployment(
        &self,
        modifiers: Vardict,
        options: Vardict,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        let (modifiers, options) = (Dict(modifiers), Dict(options));
        let parameters = [modifiers.key(), options.key()];
        let work = Work::Update(Update::of(&self.name, &modifiers, &options));
        self.begin("UpdateDeployment", &header, &parameters, work).await
    }

    #[zbus(out_args("transaction_address"))]
    async fn rebase(
        &self,
        options: Vardict,
        refspec: String,
        packages: Vec<String>,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        let options = Dict(options);
        let parameters = [options.key(), refspec.clone(), packages.join(" ")];
        let update = Update { refspec: Some(refspec), ..Update::of(&self.name, &Dict::default(), &options) };
        self.begin("Rebase", &header, &parameters, Work::Update(update)).await
    }

    #[zbus(out_args("transaction_address"))]
    async fn upgrade(&self, options: Vardict, #[zbus(header)] header: Header<'_>) -> Result<String, Refusal> {
        let options = Dict(options);
        let work = Work::Update(Update::of(&self.name, &Dict::default(), &options));
        self.begin("Upgrade", &header, &[options.key()], work).await
    }

    #[zbus(out_args("transaction_address"))]
    async fn pkg_change(
        &self,
        options: Vardict,
        packages_added: Vec<String>,
        packages_removed: Vec<String>,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        let options = Dict(options);
        let parameters = [options.key(), packages_added.join(" "), packages_removed.join(" ")];
        let update = Update {
            install: packages_added,
            uninstall: packages_removed,
            no_pull_base: true,
            ..Update::of(&self.name, &Dict::default(), &options)
        };
        self.begin("PkgChange", &header, &parameters, Work::Update(update)).await
    }

    #[zbus(out_args("transaction_address"))]
    async fn rollback(
        &self,
        options: Vardict,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        self.begin("Rollback", &header, &[Dict(options).key()], Work::Rollback).await
    }

    #[zbus(out_args("transaction_address"))]
    async fn kernel_args(
        &self,
        existing_kernel_arg_string: String,
        kernel_args_added: Vec<String>,
        kernel_args_replaced: Vec<String>,
        kernel_args_removed: Vec<String>,
        options: Vardict,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        let options = Dict(options);
        let lists = [&kernel_args_added, &kernel_args_replaced, &kernel_args_removed];
        let mut parameters = vec![existing_kernel_arg_string.clone(), options.key()];
        parameters.extend(lists.map(|list| list.join(" ")));
        let change = KargsChange::of(
            existing_kernel_arg_string,
            [kernel_args_added, kernel_args_replaced, kernel_args_removed],
            &options,
        );
        self.begin("KernelArgs", &header, &parameters, Work::Kargs(self.name.clone(), change)).await
    }

    #[zbus(out_args("bootconfig"))]
    fn get_deployment_boot_config(&self, deployid: String, is_pending: bool) -> Result<Vardict, Refusal> {
        kargs::boot_config(&deployid, is_pending)
    }

    #[zbus(out_args("transaction_address"))]
    async fn cleanup(
        &self,
        elements: Vec<String>,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        let work = Work::Cleanup(Cleanup::of(&elements)?);
        self.begin("Cleanup", &header, &elements, work).await
    }

    #[zbus(out_args("transaction_address"))]
    async fn finalize_deployment(
        &self,
        options: Vardict,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<String, Refusal> {
        let options = Dict(options);
        let work = Work::Finalize(Finalize::of(&options));
        self.begin("FinalizeDeployment", &header, &[options.key()], work).await
    }

    #[zbus(out_args("transaction_address"))]
    fn download_deploy_rpm_diff(&self, revision: String, packages: Vec<String>) -> Result<String, Refusal> {
        drop((revision, packages));
        Err(Refusal::unsupported("DownloadDeployRpmDiff"))
    }

    #[zbus(out_args("transaction_address"))]
    fn download_update_rpm_diff(&self) -> Result<String, Refusal> {
        Err(Refusal::unsupported("DownloadUpdateRpmDiff"))
    }

    #[zbus(out_args("transaction_address"))]
    fn download_rebase_rpm_diff(&self, refspec: String, packages: Vec<String>) -> Result<String, Refusal> {
        drop((refspec, packages));
        Err(Refusal::unsupported("DownloadRebaseRpmDiff"))
    }

    #[zbus(out_args("transaction_address"))]
    fn clear_rollback_target(&self, options: Vardict) -> Result<String, Refusal> {
        drop(options);
        Err(Refusal::unsupported("ClearRollbackTarget"))
    }

    #[zbus(out_args("transaction_address"))]
    fn set_initramfs_state(
        &self,
        regenerate: bool,
        args: Vec<String>,
        options: Vardict,
    ) -> Result<String, Refusal> {
        drop((regenerate, args, options));
        Err(Refusal::unsupported("SetInitramfsState"))
    }

    #[zbus(out_args("transaction_address"))]
    fn initramfs_etc(
        &self,
        track: Vec<String>,
        untrack: Vec<String>,
        untrack_all: bool,
        force_sync: bool,
        options: Vardict,
    ) -> Result<String, Refusal> {
        drop((track, untrack, untrack_all, force_sync, options));
        Err(Refusal::unsupported("InitramfsEtc"))
    }

    #[zbus(out_args("transaction_address"))]
    fn refresh_md(&self, options: Vardict) -> Result<String, Refusal> {
        drop(options);
        Err(Refusal::unsupported("RefreshMd"))
    }

    #[zbus(out_args("transaction_address"))]
    fn modify_yum_repo(&self, repo_id: String, settings: HashMap<String, String>) -> Result<String, Refusal> {
        drop((repo_id, settings));
        Err(Refusal::unsupported("ModifyYumRepo"))
    }

    #[zbus(out_args("transaction_address"))]
    fn deploy(&self, revision: String, options: Vardict) -> Result<String, Refusal> {
        drop((revision, options));
        Err(Refusal::unsupported("Deploy"))
    }

    #[zbus(out_args("result"))]
    fn get_deployments_rpm_diff(
        &self,
        deployid0: String,
        deployid1: String,
    ) -> Result<Vec<Difference>, Refusal> {
        drop((deployid0, deployid1));
        Err(Refusal::unsupported("GetDeploymentsRpmDiff"))
    }

    #[zbus(out_args("result", "details"))]
    fn get_cached_deploy_rpm_diff(
        &self,
        revision: String,
        packages: Vec<String>,
    ) -> Result<(Vec<Difference>, Vardict), Refusal> {
        drop((revision, packages));
        Err(Refusal::unsupported("GetCachedDeployRpmDiff"))
    }

    #[zbus(out_args("result", "details"))]
    fn get_cached_update_rpm_diff(&self, deployid: String) -> Result<(Vec<Difference>, Vardict), Refusal> {
        drop(deployid);
        Err(Refusal::unsupported("GetCachedUpdateRpmDiff"))
    }

    #[zbus(out_args("result", "details"))]
    fn get_cached_rebase_rpm_diff(
        &self,
        refspec: String,
        packages: Vec<String>,
    ) -> Result<(Vec<Difference>, Vardict), Refusal> {
        drop((refspec, packages));
        Err(Refusal::unsupported("GetCachedRebaseRpmDiff"))
    }

    #[zbus(out_args("repos"))]
    fn list_repos(&self) -> Result<Vec<Vardict>, Refusal> {
        Err(Refusal::unsupported("ListRepos"))
    }

    #[zbus(out_args("packages"))]
    fn what_provides(&self, provides: Vec<String>) -> Result<Vec<Vardict>, Refusal> {
        drop(provides);
        Err(Refusal::unsupported("WhatProvides"))
    }

    #[zbus(out_args("packages"))]
    fn get_packages(&self, names: Vec<String>) -> Result<Vec<Vardict>, Refusal> {
        drop(names);
        Err(Refusal::unsupported("GetPackages"))
    }

    #[zbus(out_args("packages"))]
    fn search(&self, names: Vec<String>) -> Result<Vec<Vardict>, Refusal> {
        drop(names);
        Err(Refusal::unsupported("Search"))
    }

    #[zbus(out_args("enabled", "transaction_address"))]
    fn automatic_update_trigger(&self, options: Vardict) -> Result<(bool, String), Refusal> {
        drop(options);
        Err(Refusal::unsupported("AutomaticUpdateTrigger"))
    }

    #[zbus(property)]
    fn booted_deployment(&self) -> Described {
        self.of(|_, one| is(one, "booted"))
    }

    #[zbus(property)]
    fn default_deployment(&self) -> Described {
        self.of(|index, _| index == 0)
    }

    #[zbus(property)]
    fn rollback_deployment(&self) -> Described {
        let all = self.daemon.deployments();
        let booted = all.iter().position(|one| is(one, "booted")).unwrap_or(0);
        self.of(|index, _| index == booted + 1)
    }

    #[zbus(property)]
    fn cached_update(&self) -> Vardict {
        Vardict::new()
    }

    #[zbus(property)]
    fn has_cached_update_rpm_diff(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn name(&self) -> String {
        self.name.clone()
    }
}
