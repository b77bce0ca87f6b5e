//! Texts of the manual on each command, besides its options: group, examples, exit status.

pub(crate) mod command_list;
pub(crate) mod command_page;
pub(crate) mod help;
