//! The operating system's side: deployments of an OSTree sysroot, behind one port.
