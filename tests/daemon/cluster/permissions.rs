//! Permissions in the manifests, compared with the daemon's requests to the API server: every request is
//! permitted, and every permission is used.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use testbed::control_plane::{KUBELET, NODE, RecordedRequest};

const ROLES: [&str; 2] = ["deploy/kubernetes/base/cluster-role.yaml", "deploy/kubernetes/base/role.yaml"];

#[derive(Debug, Deserialize)]
struct Role {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// A request as an authorizer sees it.
#[derive(Debug)]
struct Access {
    verb: &'static str,
    group: String,
    resource: String,
    name: String,
}

impl Access {
    fn of(request: &RecordedRequest) -> Self {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, mut rest) = match parts[0] {
            "api" => (String::new(), &parts[2..]),
            "apis" => (parts[1].to_owned(), &parts[3..]),
            other => panic!("{other}"),
        };
        if rest[0] == "namespaces" && rest.len() > 2 {
            rest = &rest[2..];
        }
        let selected = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
        let is_single = rest.len() > 1;
        let name = rest.get(1).copied().or(selected).unwrap_or_default().to_owned();
        let resource = rest.get(2).map_or_else(|| rest[0].to_owned(), |sub| format!("{}/{sub}", rest[0]));
        let verb = match (request.method.as_str(), is_single) {
            ("GET", false) if query.contains("watch=true") => "watch",
            ("GET", false) => "list",
            ("GET", true) => "get",
            ("POST", _) => "create",
            ("PATCH", _) => "patch",
            other => panic!("{other:?}"),
        };
        Self { verb, group, resource, name }
    }

    /// An authorizer takes the name of a list or a watch from its field selector.
    fn is_allowed_by(&self, rule: &Rule) -> bool {
        rule.api_groups.contains(&self.group)
            && rule.resources.contains(&self.resource)
            && rule.verbs.iter().any(|verb| verb == self.verb)
            && (rule.resource_names.is_empty() || rule.resource_names.contains(&self.name))
    }

    /// True if the node authorizer and the kubelet's cluster role permit the access to the kubelet of this
    /// node.
    fn is_permitted_to_kubelet(&self, request: &RecordedRequest) -> bool {
        let own = format!("fieldSelector=metadata.name%3D{NODE}");
        match (self.resource.as_str(), self.verb) {
            ("nodes", "list" | "watch") => request.target.contains(&own),
            ("nodes", "get" | "patch") => self.name == NODE,
            ("events", "create") => true,
            _ => false,
        }
    }
}

/// True if the kubelet of the node has the right to the request from the cluster's own roles.
pub(crate) fn is_of_kubelet(request: &RecordedRequest) -> bool {
    Access::of(request).is_permitted_to_kubelet(request)
}

/// Panics if a request is not permitted, or if a permission is not used.
pub(crate) fn assert_exact(requests: &[RecordedRequest]) {
    let (kubelets, others): (Vec<_>, Vec<_>) =
        requests.iter().partition(|request| request.identity == KUBELET);
    for request in kubelets {
        let access = Access::of(request);
        assert!(access.is_permitted_to_kubelet(request), "{access:?} {}", request.target);
    }
    let unused = unused_rules(others, &ROLES);
    assert!(unused.is_empty(), "no request uses {unused:?}");
}

/// Verbs and resources of the rules in the manifests that no request uses. Panics if they do not permit a request.
pub(crate) fn unused_rules<'a>(
    requests: impl IntoIterator<Item = &'a RecordedRequest>,
    manifests: &[&str],
) -> Vec<String> {
    let rules_of = |manifest: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
        serde_saphyr::from_str::<Role>(&fs::read_to_string(path).unwrap()).unwrap().rules
    };
    let rules: Vec<Rule> = manifests.iter().copied().flat_map(rules_of).collect();
    let single = |rule: &Rule| rule.verbs.len() == 1 && rule.resources.len() == 1;
    assert!(rules.iter().all(single), "a rule with several verbs or resources may be used in part");
    let mut used = BTreeSet::new();
    for request in requests {
        let access = Access::of(request);
        let allowing = rules.iter().find(|rule| access.is_allowed_by(rule));
        used.insert(allowing.unwrap_or_else(|| panic!("no rule allows {access:?}")).clone());
    }
    let unused = rules.iter().filter(|rule| !used.contains(rule));
    unused.map(|rule| format!("{} {}", rule.verbs[0], rule.resources[0])).collect()
}
