//! Studies through their public interface; those that need real files are tested with the command.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod published;
mod ssd_profile;
