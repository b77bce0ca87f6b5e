//! Acts of an operator with ostree's own program, between the agent's commands.

use super::run::SoakRun;
use super::step::OperatorAct;

impl SoakRun {
    pub(super) fn act(&mut self, act: OperatorAct) {
        match act {
            OperatorAct::Deploy { is_staged } => self.deploy_by_hand(is_staged),
            OperatorAct::Undeploy(number) => self.undeploy(number),
        }
    }

    fn deploy_by_hand(&mut self, is_staged: bool) {
        let commit = self.host.booted().id().0;
        let staged: &[&str] = if is_staged { &["--stage"] } else { &[] };
        let deploy = [&["ostree", "admin", "deploy", "--os=fedora-coreos"], staged, &[&commit]].concat();
        let before = self.roots();
        // Refused while there is no room, for one; that is between the operator and ostree.
        self.host.run(deploy);
        self.inherit_damage(&before);
        self.forget_removed();
    }

    fn undeploy(&mut self, number: usize) {
        let before = self.roots();
        let count = before.len() + usize::from(self.host.is_staged());
        self.host.run(["ostree", "admin", "undeploy", &(number % count).to_string()]);
        let after = self.roots();
        self.undeployed.extend(before.into_iter().filter(|root| !after.contains(root)));
        self.forget_removed();
    }

    /// Serial numbers recur, so a removed deployment must not be known any longer.
    fn forget_removed(&mut self) {
        self.unconfirmed.retain(|root, _| root.exists());
        self.damaged.forget_removed();
    }
}
