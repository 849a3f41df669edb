//! Measures the figures that conditions of limits compare, and has the limits follow them
//! ([`load_monitor`](sluicegate_decide::load_monitor)).

mod origin_readings;
mod watch;

pub(crate) use watch::LoadWatch;
