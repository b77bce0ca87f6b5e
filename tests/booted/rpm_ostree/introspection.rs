//! The stand-in's D-Bus interfaces equal those of the real rpm-ostreed, method for method.

use rpmostreed::{Faults, NAME, TOP};
use zbus::fdo::IntrospectableProxy;
use zbus_xml::{ArgDirection, Interface, Node, PropertyAccess};

use crate::rpm_ostree::client::DaemonHost;
use crate::rpm_ostree::peers::bus::address;

/// Every method, signal and property of rpm-ostree 2026.2, from its introspection data.
const REAL: &str = include_str!("interfaces.txt");

#[test]
fn interfaces_are_those_of_the_real_daemon() {
    let fixture = DaemonHost::new(&Faults { slow: 5000, ..Faults::default() });
    let mut found: Vec<String> = fixture.runtime.block_on(async {
        let bus = zbus::connection::Builder::address(address(&fixture.host).as_str()).unwrap();
        let bus = bus.build().await.unwrap();
        let mut found = Vec::new();
        for object in ["Sysroot", "fedora_coreos"] {
            let proxy = IntrospectableProxy::builder(&bus).destination(NAME).unwrap();
            let proxy = proxy.path(format!("{TOP}/{object}")).unwrap().build().await.unwrap();
            found.extend(lines(&proxy.introspect().await.unwrap()));
        }
        let stranger = crate::rpm_ostree::peers::stranger::Stranger::connect(&fixture).await;
        let peer = crate::rpm_ostree::peers::stranger::Peer::connect(&stranger.change_nothing().await).await;
        found.extend(lines(&peer.introspect().await));
        found
    });
    found.sort();
    let real: Vec<&str> = REAL.lines().collect();
    assert_eq!(found, real);
}

fn lines(xml: &str) -> Vec<String> {
    let node = Node::from_reader(xml.as_bytes()).unwrap();
    let own = node.interfaces().iter().filter(|interface| interface.name().starts_with(NAME));
    own.flat_map(described).collect()
}

fn described(interface: &Interface<'_>) -> Vec<String> {
    let name = interface.name();
    let short = name.rsplit('.').next().unwrap();
    let arguments = |list: &[zbus_xml::Arg], direction: Option<ArgDirection>| {
        let chosen = list.iter().filter(|argument| direction.is_none() || argument.direction() == direction);
        let named = chosen
            .map(|argument| format!("{} {}", argument.ty().to_string(), argument.name().unwrap_or_default()));
        named.collect::<Vec<_>>().join(", ")
    };
    let methods = interface.methods().iter().map(|method| {
        let [inward, outward] =
            [ArgDirection::In, ArgDirection::Out].map(|way| arguments(method.args(), Some(way)));
        format!("{short} method {}({inward}) -> ({outward})", method.name())
    });
    let signals = interface
        .signals()
        .iter()
        .map(|signal| format!("{short} signal {}({})", signal.name(), arguments(signal.args(), None)));
    let properties = interface.properties().iter().map(|property| {
        let access = match property.access() {
            PropertyAccess::Read => "read",
            PropertyAccess::Write => "write",
            PropertyAccess::ReadWrite => "readwrite",
        };
        format!("{short} property {} {} {access}", property.ty().to_string(), property.name())
    });
    methods.chain(signals).chain(properties).collect()
}
