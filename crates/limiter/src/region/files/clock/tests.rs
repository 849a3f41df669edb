//! Every case of the module's table, and its invariants over any life of a machine.

use proptest::prelude::*;

use super::*;

const DAY: u64 = 24 * 60 * 60;
/// The year 2030.
const START: u64 = 1_900_000_000;

/// A machine with its clocks.
#[derive(Clone, Copy)]
struct Machine {
    boot: u8,
    boottime: u64,
    wall: u64,
    confirm: fn(Timestamp) -> WallClock,
}

impl Machine {
    fn new() -> Self {
        Self {
            boot: 1,
            boottime: 100,
            wall: START,
            confirm: WallClock::Unconfirmed,
        }
    }

    /// So many seconds later, all clocks running.
    fn later(self, secs: u64) -> Self {
        Self {
            boottime: self.boottime + secs,
            wall: self.wall + secs,
            ..self
        }
    }

    fn with_wall(self, wall: u64) -> Self {
        Self { wall, ..self }
    }

    fn synchronised(self) -> Self {
        Self {
            confirm: WallClock::Synchronized,
            ..self
        }
    }

    fn rebooted(self) -> Self {
        Self {
            boot: self.boot + 1,
            boottime: 5,
            ..self
        }
    }

    fn reading(self) -> ClockReading {
        ClockReading {
            boot: BootId::from_bytes(&[self.boot]),
            boottime: self.boottime(),
            wall: (self.confirm)(Timestamp::from_secs(self.wall)),
        }
    }

    fn boottime(self) -> BootTime {
        BootTime(Duration::from_secs(self.boottime))
    }
}

/// Limiter time on `machine`, in seconds.
fn secs(clock: Clock, machine: Machine) -> u64 {
    clock.now(machine.boottime()).as_secs()
}

/// A limiter that started on a machine with a right clock, with what it kept.
fn running() -> (Machine, Clock, ClockMark) {
    let machine = Machine::new();
    let clock = Clock::started(machine.reading());
    (machine, clock, clock.mark(machine.reading()))
}

/// Goal: a step of NTP is not felt, but caught up. Method: an hour either way; at once, after a while, at the end.
#[test]
fn a_step_of_the_wall_clock_is_caught_up_slowly() {
    let (machine, clock, _) = running();
    for (step, sixteenth) in [(3600_i64, 100_i64), (-3600, -100)] {
        let stepped = machine.with_wall(machine.wall.saturating_add_signed(step));
        let clock = clock.retuned(stepped.reading());
        assert_eq!(secs(clock, stepped), START);
        let soon = stepped.later(1600);
        assert_eq!(
            secs(clock, soon),
            (START + 1600).saturating_add_signed(sixteenth)
        );
        let met = stepped.later(16 * 3600);
        assert_eq!(secs(clock, met), met.wall);
        assert_eq!(
            secs(clock.retuned(met.reading()), met.later(1000)),
            met.wall + 1000
        );
    }
}

/// Goal: a wall clock that leaps by more than a day needs somebody to vouch for it, and never takes time back. Method:
/// years either way, unconfirmed and synchronized.
#[test]
fn a_leap_while_running_is_believed_ahead_and_synchronised_only() {
    let (machine, clock, _) = running();
    let year = 365 * DAY;
    let ahead = machine.with_wall(START + year);
    let retuned = clock.retuned(ahead.reading());
    assert_eq!(secs(retuned, ahead.later(9)), START + 9);
    let drift = ClockDrift::Behind(Duration::from_secs(year));
    assert_eq!(retuned.drift(ahead.later(9).reading()), drift);
    let retuned = clock.retuned(ahead.synchronised().reading());
    assert_eq!(secs(retuned, ahead.later(9)), START + year + 9);
    let back = machine.with_wall(START - year).synchronised();
    let retuned = clock.retuned(back.reading());
    assert_eq!(secs(retuned, back.later(9)), START + 9);
    assert_eq!(
        retuned.drift(back.reading()),
        ClockDrift::Ahead(Duration::from_secs(year))
    );
    assert_eq!(retuned.drift(machine.reading()), ClockDrift::Near);
}

/// Goal: time asleep has passed. Method: time since boot includes the suspend, as does the wall clock.
#[test]
fn a_suspend_passes_like_any_time() {
    let (machine, clock, _) = running();
    assert_eq!(secs(clock, machine.later(8 * 3600)), START + 8 * 3600);
}

/// Goal: a restart takes as long as it takes, whatever the wall clock does meanwhile. Method: three wall clocks.
#[test]
fn a_restart_goes_on_by_the_time_since_boot() {
    let (machine, _, mark) = running();
    for wall in [START + 30, START - 10 * DAY, 70 * 365 * DAY + START] {
        let restarted = machine.later(30).with_wall(wall);
        assert_eq!(
            secs(Clock::continued(mark, restarted.reading()), restarted),
            START + 30
        );
    }
}

/// Goal: after a reboot the wall clock is believed as far as it is plausible. Method: right clocks after a minute and
/// after the longest time away; 1970; 2099; more than the longest time with and without somebody to vouch for it.
#[test]
fn a_reboot_believes_a_plausible_wall_clock() {
    let (machine, _, mark) = running();
    let after = |wall| {
        let machine = machine.with_wall(wall).rebooted();
        let plain = secs(Clock::continued(mark, machine.reading()), machine);
        let vouched = machine.synchronised();
        (
            plain,
            secs(Clock::continued(mark, vouched.reading()), vouched),
        )
    };
    let away = LONGEST_AWAY.as_secs();
    assert_eq!(after(START + 60), (START + 60, START + 60));
    assert_eq!(after(START + away), (START + away, START + away));
    assert_eq!(after(START + away + 1), (START, START + away + 1));
    assert_eq!(after(0), (START, START));
    assert_eq!(after(START - 1), (START, START));
    let in_2099 = 4_070_908_800;
    assert_eq!(after(in_2099), (START, in_2099));
}

/// Goal: a machine that first starts without a clock does not stay in 1970. Method: the wall clock is set right while
/// running, or found right at the next boot; no source confirms it.
#[test]
fn a_limiter_that_began_in_1970_leaps_to_the_first_possible_time() {
    let machine = Machine::new().with_wall(7);
    let clock = Clock::started(machine.reading());
    assert_eq!(secs(clock, machine.later(9)), 16);
    let set = machine.later(9).with_wall(START);
    assert_eq!(secs(clock.retuned(set.reading()), set), START);
    let mark = clock.mark(machine.reading());
    let rebooted = set.rebooted();
    assert_eq!(
        secs(Clock::continued(mark, rebooted.reading()), rebooted),
        START
    );
}

/// Goal: a snapshot that is resumed goes on. Method: the machine's memory of ten days ago, with the wall clock of today;
/// and with a mark on disk that was kept later than the snapshot was taken.
#[test]
fn a_resumed_snapshot_goes_on_where_it_was() {
    let (machine, clock, _) = running();
    let resumed = machine.with_wall(START + 10 * DAY);
    assert_eq!(secs(clock.retuned(resumed.reading()), resumed), START);
    let vouched = resumed.synchronised();
    assert_eq!(
        secs(clock.retuned(vouched.reading()), vouched),
        START + 10 * DAY
    );
    let newer = clock.mark(machine.later(500).reading());
    assert_eq!(
        secs(Clock::continued(newer, machine.reading()), machine),
        START + 500
    );
}

/// Goal: a mark survives its record. Method: there and back.
#[test]
fn a_mark_says_what_was_put_into_it() {
    let (_, _, mark) = running();
    assert_eq!(ClockMark::opened(mark.sealed().bytes()), Ok(mark));
}

/// Goal: who is told the time of another process goes on by it, whatever its own wall clock says. Method: a process that goes by another
/// clock is an hour ahead; its mark passes as bytes, and ten seconds later the heir is as far ahead, but for what it catches up.
#[test]
fn a_mark_of_another_process_is_gone_on_from() {
    let machine = Machine::new();
    let ahead = Timestamp::from_secs(START + 3600);
    let told = ClockMark::new(ahead, machine.reading()).to_bytes();
    let mark = ClockMark::from_bytes(&told).expect("it is whole");
    let complete_successor = Clock::continued(mark, machine.later(10).reading());
    assert_eq!(secs(complete_successor, machine.later(10)), START + 3610);
    assert_eq!(secs(complete_successor, machine.later(26)), START + 3625);
    assert!(ClockMark::from_bytes(&told[1..]).is_err());
}

/// What may happen to a machine.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Step(u64),
    Synchronise,
    Restart,
    Reboot,
}

fn event() -> impl Strategy<Value = Event> {
    // Walls from 1970 to the end of what nanoseconds can tell.
    let wall = prop_oneof![
        START - 2 * DAY..START + 2 * DAY,
        0..u64::MAX / 1_000_000_000
    ];
    prop_oneof![
        4 => (0..3 * DAY).prop_map(Event::Pass),
        2 => wall.prop_map(Event::Step),
        1 => Just(Event::Synchronise),
        2 => Just(Event::Restart),
        1 => Just(Event::Reboot),
    ]
}

proptest! {
    /// Goal: invariants 1 and 2. Method: any life of a machine; time never goes back, and runs evenly while nothing but
    /// time happens.
    #[test]
    fn limiter_time_never_goes_back_and_never_races(
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let mut machine = Machine::new();
        let mut clock = Clock::started(machine.reading());
        let mut latest = clock.now(machine.boottime());
        for event in events {
            match event {
                Event::Pass(secs) => {
                    machine = machine.later(secs);
                    let ran = clock.now(machine.boottime()).saturating_since(latest);
                    let room = Duration::from_secs(secs) / 16 + Duration::from_nanos(1);
                    let ends = clock.now(machine.boottime()).as_nanos() == u64::MAX;
                    prop_assert!(ends || ran.abs_diff(Duration::from_secs(secs)) <= room);
                }
                Event::Step(wall) => {
                    machine = machine.with_wall(wall);
                    clock = clock.retuned(machine.reading());
                }
                Event::Synchronise => {
                    clock = clock.retuned(machine.synchronised().reading());
                }
                Event::Restart => {
                    let mark = clock.mark(machine.reading());
                    clock = Clock::continued(mark, machine.reading());
                }
                Event::Reboot => {
                    let mark = clock.mark(machine.reading());
                    machine = machine.rebooted();
                    clock = Clock::continued(mark, machine.reading());
                }
            }
            let now = clock.now(machine.boottime());
            prop_assert!(now >= latest);
            latest = now;
        }
    }
}
