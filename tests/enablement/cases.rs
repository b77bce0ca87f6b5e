use crate::Universe as _;
