//! Which symlinks `systemctl enable`, `disable` and `preset` would leave.
