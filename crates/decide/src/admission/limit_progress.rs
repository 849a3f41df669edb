//! Decides over the limits of a request step by step: each step ends with the decision, or with a question to a store.
//!
//! ```text
//!   charging ── admitted ──> each limit in shadow ──> Decided
//!       │
//!       ├── rejected ───────────────────────────────> Decided
//!       └── rejected, with a page ──> page counted ─> Decided
//! ```
//! In each of the states a store may be asked, once for each slot of it; the answer goes on where the question was made. Nothing waits.

use crate::rejection::{LimitRejection, Rejection, RejectionReason};
use arrayvec::ArrayVec;
use sluicegate_limiter::Timestamp;

use super::Admission;
use super::admitted::Admitted;
use super::evaluate::{
    ChargeTiming, LimitEvaluation, MAX_CHECKS, Marks, PageToGive, late_marks, only_rejection,
    strike,
};
use super::limit_check::{LimitCheck, LimitChecks, ShadowProgress};
use super::limit_event::LimitNote;
use super::report::AdmissionReport;
use super::transaction::{
    JointDecision, JointProgress, JointQuestion, RequestProgress, Transaction,
};
use crate::store::{StoreAnswer, StoreCall, StoreFailure};

/// The progress of the limits of a request.
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "most requests are decided, without an allocation"
)]
pub enum LimitProgress<'a> {
    /// They are decided.
    Decided(Admission),
    /// A store is to be asked.
    AskStore(Box<StoreQuestion<'a>>),
}

/// A request whose limits are decided as far as they can be before a store answers. Dropping it refunds what was charged.
#[must_use = "dropped, it refunds everything"]
pub struct StoreQuestion<'a> {
    state: EvaluationState<'a>,
    joint: Box<JointQuestion<'a>>,
}

/// The state of a request that goes on with the answer of a store.
#[expect(
    clippy::large_enum_variant,
    reason = "it lies in the box of its question"
)]
enum EvaluationState<'a> {
    Charging(ChargingRequest<'a>),
    Passed(PassedRequest<'a>),
    Page(Box<CountedPage<'a>>),
}

/// A request whose limits that may reject are charged together.
pub(super) struct ChargingRequest<'a> {
    pub(super) evaluation: LimitEvaluation<'a>,
    /// The checks against the limits that the route names.
    pub(super) written: LimitChecks<'a>,
    /// The checks that are charged.
    pub(super) checks: LimitChecks<'a>,
    /// The marks of the limits that are exceeded.
    pub(super) marks: Marks,
}

/// A request that is admitted, and that the limits in shadow still count, each by itself.
struct PassedRequest<'a> {
    applicable: ArrayVec<LimitCheck<'a>, MAX_CHECKS>,
    /// The index of the check that is charged now.
    next: usize,
    transaction: Transaction,
    report: AdmissionReport,
    /// Set if the request starts when it is decided: nothing holds it back.
    starts: bool,
}

/// A request that is rejected with a page, which a limit counts.
struct CountedPage<'a> {
    evaluation: LimitEvaluation<'a>,
    page: PageToGive<'a>,
    /// The check against the limit that counts pages, if it rejects.
    counting: LimitChecks<'a>,
    rejected: RejectedChecks<'a>,
}

/// The checks of a request that limits reject.
struct RejectedChecks<'a> {
    checks: LimitChecks<'a>,
    applicable: ArrayVec<LimitCheck<'a>, MAX_CHECKS>,
    joint: JointDecision,
}

impl LimitProgress<'_> {
    /// Returns the decision, with every store as one that cannot be reached.
    #[must_use]
    pub fn without_store(self, now: Timestamp) -> Admission {
        let mut progress = self;
        loop {
            progress = match progress {
                Self::Decided(admission) => return admission,
                Self::AskStore(question) => question.answer(Err(StoreFailure::NotSent), now),
            };
        }
    }

    /// Returns the progress of a request that is rejected, where no limit was charged.
    fn rejected(rejection: LimitRejection) -> Self {
        Self::Decided(Admission::Rejected(Rejection::ByLimit(rejection), None))
    }
}

impl<'a> StoreQuestion<'a> {
    /// Returns the call to the store.
    pub fn call(&self) -> StoreCall<'_> {
        self.joint.call()
    }

    /// Goes on with the answer of the store.
    pub fn answer(
        self,
        answer: Result<StoreAnswer, StoreFailure>,
        now: Timestamp,
    ) -> LimitProgress<'a> {
        let joint = self.joint.answer(answer, now);
        match self.state {
            EvaluationState::Charging(charging) => charging.go_on(joint, now),
            EvaluationState::Passed(passed) => passed.go_on(joint, now),
            EvaluationState::Page(page) => page.go_on(joint, now),
        }
    }
}

/// The progress of checks that are decided together, or the rejection without a decision over them.
type JointResult<'a> = Result<JointProgress<'a>, LimitRejection>;

impl<'a> EvaluationState<'a> {
    fn ask(self, joint: Box<JointQuestion<'a>>) -> LimitProgress<'a> {
        LimitProgress::AskStore(Box::new(StoreQuestion { state: self, joint }))
    }
}

impl<'a> ChargingRequest<'a> {
    /// Charges the checks, all or none.
    pub(super) fn begin(self, now: Timestamp) -> LimitProgress<'a> {
        let joint = Transaction::run(&self.checks, now);
        self.go_on(joint, now)
    }

    fn go_on(mut self, joint: JointResult<'a>, now: Timestamp) -> LimitProgress<'a> {
        let mut joint = joint;
        // Each round exceeds one more mark, and there is one a limit at most.
        loop {
            let decided = match joint {
                Ok(JointProgress::Decided(decided)) => decided,
                Ok(JointProgress::AskStore(question)) => {
                    return EvaluationState::Charging(self).ask(question);
                }
                Err(rejection) => return LimitProgress::rejected(rejection),
            };
            let late = late_marks(&self.checks, &decided);
            if late.is_empty() {
                return self.end(decided, now);
            }
            self.marks.extend(late);
            self.checks = (self.evaluation).without_exceeded(&self.written, &self.marks);
            joint = Transaction::run(&self.checks, now);
        }
    }

    fn end(self, mut joint: JointDecision, now: Timestamp) -> LimitProgress<'a> {
        let Self {
            evaluation,
            written,
            checks,
            marks,
        } = self;
        let applicable = evaluation.applicable(&written, &marks);
        let Some(transaction) = joint.charged.take() else {
            if let Some(page) = evaluation.page_to_give(&checks, &joint.verdict) {
                let rejected = RejectedChecks {
                    checks,
                    applicable,
                    joint,
                };
                let page = CountedPage {
                    counting: evaluation.counting(&page),
                    evaluation,
                    page,
                    rejected,
                };
                return page.begin(now);
            }
            let ban = strike(&checks, &joint, now);
            let rejected = evaluation.reject(&checks, &applicable, joint, ban, now);
            return LimitProgress::Decided(rejected);
        };
        let asks_store = evaluation.limits.ask_store();
        let charging = evaluation.charging;
        let mut report = evaluation.report(&checks, joint);
        let starts = report.verdict.delay().is_zero() && charging == ChargeTiming::AtOnce;
        // Where others of its limits are asked in a store, the request may still end before it is decided.
        let progress = match starts && !asks_store {
            true => RequestProgress::UnderWay,
            false => RequestProgress::HeldBack,
        };
        let transaction = transaction.commit(&checks, progress);
        report.mark(marks);
        let passed = PassedRequest {
            applicable,
            next: 0,
            transaction,
            report,
            starts,
        };
        passed.charge_shadow(now)
    }
}

impl<'a> PassedRequest<'a> {
    /// Charges the limits in shadow and the rates in shadow, from the next check on.
    fn charge_shadow(mut self, now: Timestamp) -> LimitProgress<'a> {
        while let Some(check) = self.applicable.get(self.next).copied() {
            match check.charge_in_shadow(&mut self.transaction, now) {
                ShadowProgress::Decided(notes) => self.end_check(check, notes, now),
                ShadowProgress::AskStore(question) => {
                    return EvaluationState::Passed(self).ask(question);
                }
            }
        }
        if self.starts {
            self.transaction.start();
        }
        let admitted = Admitted::holding(self.transaction);
        LimitProgress::Decided(Admission::Admitted(admitted, Some(self.report)))
    }

    fn go_on(mut self, joint: JointResult<'a>, now: Timestamp) -> LimitProgress<'a> {
        let decided = match joint {
            Ok(JointProgress::AskStore(question)) => {
                return EvaluationState::Passed(self).ask(question);
            }
            Ok(JointProgress::Decided(decided)) => Ok(decided),
            Err(rejection) => Err(rejection),
        };
        if let Some(check) = self.applicable.get(self.next).copied() {
            let notes = check.end_shadow(decided, &mut self.transaction);
            self.end_check(check, notes, now);
        }
        self.charge_shadow(now)
    }

    /// Reports what a limit in shadow decided, and goes on to the next check.
    fn end_check(&mut self, check: LimitCheck<'a>, notes: Vec<LimitNote>, now: Timestamp) {
        self.report.note(notes);
        let rates = check.charge_shadow_rates(&mut self.transaction, now);
        self.report.note(rates);
        self.next += 1;
    }
}

impl<'a> CountedPage<'a> {
    /// Charges the limit that counts pages.
    fn begin(self, now: Timestamp) -> LimitProgress<'a> {
        let joint = Transaction::run(&self.counting, now);
        self.go_on(joint, now)
    }

    fn go_on(self, joint: JointResult<'a>, now: Timestamp) -> LimitProgress<'a> {
        let pages = match joint {
            Ok(JointProgress::AskStore(question)) => {
                return EvaluationState::Page(Box::new(self)).ask(question);
            }
            Ok(JointProgress::Decided(pages)) => pages,
            Err(rejection) => return LimitProgress::rejected(rejection),
        };
        LimitProgress::Decided(self.end(pages, now))
    }

    /// Returns the rejection with the page; where the limit that counts pages has no room, its own rejection.
    fn end(self, mut pages: JointDecision, now: Timestamp) -> Admission {
        let Self {
            evaluation,
            page,
            counting,
            rejected,
        } = self;
        let Some(charged) = pages.charged.take() else {
            let ban = strike(&counting, &pages, now);
            return evaluation.reject(&counting, &[], pages, ban, now);
        };
        // A page has no response of an origin that its charge could wait for.
        drop(charged.commit(&counting, RequestProgress::UnderWay));
        let open = page.challenge.open(page.visit, &pages.verdict, now);
        let reason = RejectionReason::Challenged(open);
        let rejection = page.check.rejection(reason, open.wait());
        let RejectedChecks {
            checks,
            applicable,
            joint,
        } = rejected;
        let shadow = (applicable.iter())
            .filter(|check| only_rejection(&joint.verdict, &checks, check.limit))
            .filter_map(|check| check.try_shadow_rates(now));
        let shadow: Vec<LimitNote> = shadow.collect();
        let mut report = evaluation.report(&counting, pages);
        report.note(joint.notes.into_iter().chain(shadow));
        Admission::Rejected(Rejection::ByLimit(rejection), Some(report))
    }
}
