//! Vendor units and presets of the OS.

use std::path::Path;

use crate::tree;

/// Write units and presets below the root of an OS tree.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    for (name, contents) in UNITS {
        tree::write(root, &format!("usr/lib/systemd/system/{name}"), contents.as_bytes(), 0o644)?;
    }
    for (name, contents) in PRESETS {
        tree::write(root, &format!("usr/lib/systemd/system-preset/{name}"), contents.as_bytes(), 0o644)?;
    }
    Ok(())
}

const PRESETS: [(&str, &str); 2] = [
    (
        "90-default.preset",
        "enable chronyd.service\nenable rpcbind.socket\nenable rpm-ostreed.service\nenable zincati.service\n",
    ),
    ("99-default-disable.preset", "disable *\n"),
];

const UNITS: [(&str, &str); 19] = [
    (
        "basic.target",
        "[Unit]\nDescription=Basic System\nRequires=sysinit.target\nAfter=sysinit.target sockets.target\n",
    ),
    (
        "multi-user.target",
        "[Unit]\nDescription=Multi-User System\nRequires=basic.target\nAfter=basic.target\n",
    ),
    ("network-online.target", "[Unit]\nDescription=Network is Online\n"),
    ("network.target", "[Unit]\nDescription=Network\n"),
    ("sockets.target", "[Unit]\nDescription=Socket Units\n"),
    ("sysinit.target", "[Unit]\nDescription=System Initialization\n"),
    ("time-sync.target", "[Unit]\nDescription=System Time Synchronized\n"),
    (
        "chrony-wait.service",
        "[Unit]\nDescription=Wait for chrony to synchronize system clock\nRequires=chronyd.service\nAfter=chronyd.service\n\
         Before=time-sync.target\n\n[Service]\nType=oneshot\nExecStart=/usr/bin/chronyc waitsync 0 0.1 0.0 1\n\
         RemainAfterExit=yes\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "chronyd.service",
        "[Unit]\nDescription=NTP client/server\nAfter=ntpdate.service sntp.service\nConflicts=systemd-timesyncd.service\n\n\
         [Service]\nType=notify\nExecStart=/usr/sbin/chronyd -n\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "crio.service",
        "[Unit]\nDescription=Container Runtime Interface for OCI (CRI-O)\nWants=network-online.target\n\
         After=network-online.target\n\n[Service]\nType=notify\nEnvironmentFile=-/etc/sysconfig/crio\nExecStart=/usr/bin/crio\n\
         ExecReload=/bin/kill -s HUP $MAINPID\nRestart=on-failure\n\n[Install]\nWantedBy=multi-user.target\nAlias=cri-o.service\n",
    ),
    (
        "docker.socket",
        "[Unit]\nDescription=Docker Socket for the API\n\n[Socket]\nListenStream=/run/docker.sock\nSocketMode=0660\n\n\
         [Install]\nWantedBy=sockets.target\n",
    ),
    (
        "ipsec.service",
        "[Unit]\nDescription=Internet Key Exchange (IKE) Protocol Daemon for IPsec\nAfter=network-online.target\n\n[Service]\n\
         Type=notify\nExecStart=/usr/libexec/ipsec/pluto --nofork\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "openvswitch.service",
        "[Unit]\nDescription=Open vSwitch\nBefore=network.target\nRequires=ovsdb-server.service ovs-vswitchd.service\n\n\
         [Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=yes\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "ovs-vswitchd.service",
        "[Unit]\nDescription=Open vSwitch Forwarding Unit\nAfter=ovsdb-server.service\nRequires=ovsdb-server.service\n\
         PartOf=openvswitch.service\n\n[Service]\nType=forking\nExecStart=/usr/share/openvswitch/scripts/ovs-ctl start\n",
    ),
    (
        "ovsdb-server.service",
        "[Unit]\nDescription=Open vSwitch Database Unit\nAfter=syslog.target\nPartOf=openvswitch.service\n\n[Service]\n\
         Type=forking\nExecStart=/usr/share/openvswitch/scripts/ovs-ctl --no-ovs-vswitchd start\n",
    ),
    (
        "rpcbind.service",
        "[Unit]\nDescription=RPC Bind\nRequires=rpcbind.socket\n\n[Service]\nType=notify\nExecStart=/usr/bin/rpcbind -w -f\n\n\
         [Install]\nWantedBy=multi-user.target\nAlso=rpcbind.socket\n",
    ),
    (
        "rpcbind.socket",
        "[Unit]\nDescription=RPCbind Server Activation Socket\n\n[Socket]\nListenStream=/run/rpcbind.sock\n\n\
         [Install]\nWantedBy=sockets.target\n",
    ),
    (
        "rpm-ostreed.service",
        "[Unit]\nDescription=rpm-ostree System Management Daemon\nConditionPathExists=/ostree\n\n[Service]\nType=dbus\n\
         BusName=org.projectatomic.rpmostree1\nExecStart=/usr/bin/rpm-ostree start-daemon\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "zincati.service",
        "[Unit]\nDescription=Zincati Update Agent\nAfter=network-online.target\n\n[Service]\nType=notify\n\
         ExecStart=/usr/libexec/zincati agent\n\n[Install]\nWantedBy=multi-user.target\n",
    ),
];
