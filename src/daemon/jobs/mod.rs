//! Jobs: work on the host in processes of their own (`flameholder work`), one at a time but for pulls of images,
//! and their results.

mod boot_check_state;
mod drift_work;
mod force_file;
pub(super) mod generation_figures;
pub(super) mod job_deadline;
pub(super) mod job_queue;
mod notify_work;
mod pin_work;
mod problem;
mod reboot_attempt;
mod trust_work;
pub mod work;
pub(super) mod work_job;
pub(super) mod work_process;
pub(super) mod work_result;
