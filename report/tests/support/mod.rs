//! What the tests of the site share.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

pub mod axe;
pub mod browser;
pub mod folder;
pub mod links;
