//! Components of the cluster in the trial: they make Nodes, configs and the pool, roll out a config, take Nodes for
//! drained, and keep the status of the pool.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::agent::FleetProtocol;

const GROUP: &str = "machineconfiguration.openshift.io";
const POOL: &str = "worker";
/// Requests at a time of a component.
const PARALLEL: usize = 16;
/// Images of which the kubelet tells in the status of its Node (the kubelet's `nodeStatusMaxImages`).
const IMAGES: usize = 50;
/// Pause after a failed watch.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two changes of the pool's status.
const POOL_STATUS: Duration = Duration::from_secs(5);

/// Components of the cluster.
#[derive(Clone)]
pub(crate) struct ClusterOperator {
    client: Client,
    protocol: FleetProtocol,
}

/// Name of a Node, by its number.
pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

impl ClusterOperator {
    pub(crate) fn new(client: Client, protocol: FleetProtocol) -> Self {
        Self { client, protocol }
    }

    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::all_with(self.client.clone(), &resource)
    }

    async fn create(&self, group: &str, kind: &str, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let name = object.name_any();
        let created = self.api(group, kind).create(&PostParams::default(), &object).await;
        created.map(drop).with_context(|| format!("creating the {kind} {name}"))
    }

    /// Store these configs, with the content of a rendered one, and make a pool that has the first.
    pub(crate) async fn create_pool(&self, rendered: &Path, configs: &[&str]) -> Result<()> {
        let content: Value = serde_json::from_slice(&std::fs::read(rendered)?)?;
        for name in configs {
            let metadata = json!({"name": name});
            let config = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfig",
                "metadata": metadata, "spec": content.get("spec")});
            self.create(GROUP, "MachineConfig", config).await?;
        }
        let pool = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfigPool",
            "metadata": {"name": POOL}, "spec": {"configuration": {"name": configs.first()},
                "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}}});
        self.create(GROUP, "MachineConfigPool", pool).await
    }

    /// Make so many Nodes that have this config.
    pub(crate) async fn create_nodes(&self, nodes: usize, config: &str) -> Result<()> {
        let make = |number| self.create_node(node_name(number), config);
        stream::iter(0..nodes).map(make).buffer_unordered(PARALLEL).try_collect().await
    }

    async fn create_node(&self, name: String, config: &str) -> Result<()> {
        let annotations = match self.protocol {
            FleetProtocol::Operator => json!({
                format!("{GROUP}/currentConfig"): config,
                format!("{GROUP}/desiredConfig"): config,
                format!("{GROUP}/state"): "Done",
            }),
            FleetProtocol::Pool => json!({}),
        };
        let labels = json!({"node-role.kubernetes.io/worker": "", "kubernetes.io/hostname": name});
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        self.create("", "Node", json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})).await?;
        let image = |number: usize| {
            let digest = format!("{number:064x}");
            json!({"sizeBytes": 1_000_000 + number,
                "names": [format!("quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{digest}")]})
        };
        let status = json!({"status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"osImage": "Fedora CoreOS 43.20260101.3.0", "kubeletVersion": "v1.34.0"},
            "images": (0..IMAGES).map(image).collect::<Vec<_>>()}});
        let patched =
            self.api("", "Node").patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        patched.map(drop).with_context(|| format!("writing the status of the Node {name}"))
    }

    /// Make a config the desired one of all Nodes at once: nothing spreads the update.
    pub(crate) async fn roll_out(&self, nodes: usize, config: &str) -> Result<()> {
        let patch = json!({"spec": {"configuration": {"name": config}}});
        self.patch(GROUP, "MachineConfigPool", POOL, &patch).await?;
        if self.protocol == FleetProtocol::Pool {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {format!("{GROUP}/desiredConfig"): config}}});
        let desire = |number| {
            let patch = patch.clone();
            async move { self.patch("", "Node", &node_name(number), &patch).await }
        };
        stream::iter(0..nodes).map(desire).buffer_unordered(PARALLEL).try_collect().await
    }

    async fn patch(&self, group: &str, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let patched = self.api(group, kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).with_context(|| format!("changing the {kind} {name}"))
    }

    /// Take all drains and uncordons for done, and keep the status of the pool, until the program ends.
    pub(crate) async fn serve(self) {
        tokio::join!(self.drain(), self.keep_pool_status());
    }

    /// Change the status of the pool now and then, as the node controller does during a rollout.
    async fn keep_pool_status(&self) {
        for count in 0_u64.. {
            tokio::time::sleep(POOL_STATUS).await;
            let status = json!({"status": {"updatedMachineCount": count, "observedGeneration": count}});
            let pools = self.api(GROUP, "MachineConfigPool");
            // The next status will do if the server is away.
            drop(pools.patch_status(POOL, &PatchParams::default(), &Patch::Merge(&status)).await);
        }
    }

    async fn drain(&self) {
        loop {
            // A watch that broke, or a server that is away.
            drop(self.drain_until_the_watch_ends().await);
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn drain_until_the_watch_ends(&self) -> Result<()> {
        let nodes = self.api("", "Node");
        let listed = nodes.list(&ListParams::default()).await?;
        let version = listed.metadata.resource_version.context("a list without a version")?;
        let present = stream::iter(listed.items.into_iter().map(Ok));
        let watched = nodes.watch(&WatchParams::default(), &version).await?;
        let changed = watched.try_filter_map(async |event| {
            Ok(match event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => Some(node),
                _ => None,
            })
        });
        present.chain(changed.boxed()).try_for_each_concurrent(PARALLEL, |node| self.answer(node)).await?;
        Ok(())
    }

    async fn answer(&self, node: DynamicObject) -> kube::Result<()> {
        let annotation = |key: &str| node.annotations().get(&format!("{GROUP}/{key}"));
        let desired = annotation("desiredDrain");
        if desired.is_none() || desired == annotation("lastAppliedDrain") {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {format!("{GROUP}/lastAppliedDrain"): desired}}});
        let nodes = self.api("", "Node");
        nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
    }
}
