//! Flameholder makes an OSTree host match its rendered MachineConfig: all of it or none of it.
//!
//! A change goes through the crate in one direction:
//!
//! 1. [`source`], [`cluster`] and [`https`] deliver the bytes of the desired config; [`core::config`] decodes them.
//! 2. [`core::plan`] decides from current config, desired config and the observed tree; [`transaction::plan`]
//!    does the observing. Nothing is written.
//! 3. [`transaction::update`] stages a deployment through [`os`] (libostree or rpm-ostreed), or prepares a live
//!    update; [`transaction::engine`] journals, applies and undoes files through [`host::fs`].
//! 4. [`daemon`] waits for what the reboot policy demands ([`transaction::grant`]), has the node drained, unlocks the
//!    staged deployment and asks [`host::systemd`] for the reboot; images of pinned image sets are pulled beside it
//!    ([`cri`]). [`firstboot`] stages and unlocks before the kubelet ever starts, without grant and drain.
//! 5. At shutdown [`transaction::update::finalize`] merges `/etc`; in the next boot [`transaction::boot`] activates
//!    the generation, runs the boot check, and confirms it or rolls back.
//!
//! [`cli`] is the way in for operators and for systemd, [`report`] holds the documents it prints, and
//! [`transaction::handover`] takes a node over from the machine-config-daemon. Imports run downwards only:
//! `docs/development/design.md` has the floors and rooms, `docs/glossary.md` the words.
pub mod cli;
pub mod cluster;
pub mod core;
pub mod cri;
pub mod daemon;
pub mod firstboot;
pub mod host;
pub mod https;
pub mod os;
pub mod report;
pub mod source;
pub mod transaction;
