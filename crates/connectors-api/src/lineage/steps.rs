//! The steps of a proof, and their stops.

use super::{Evidence, LineageReason, LineageRefusal, LineageVerdict, MissingLink};

/// Why a step of the proof goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProofStop {
    Waiting(Vec<MissingLink>),
    Refused(LineageRefusal),
}

pub(super) type LineageStep<T = ()> = Result<T, ProofStop>;

/// A contradiction.
pub(super) fn refused<T>(reason: LineageReason, message: String) -> LineageStep<T> {
    Err(ProofStop::Refused(LineageRefusal { reason, message }))
}

/// Both values, or the missing parts of both steps. A contradiction precedes missing parts.
pub(super) fn both<A, B>(one: LineageStep<A>, other: LineageStep<B>) -> LineageStep<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(ProofStop::Waiting(mut one)), Err(ProofStop::Waiting(other))) => {
            one.extend(other);
            Err(ProofStop::Waiting(one))
        }
        (Err(stop @ ProofStop::Refused(_)), _)
        | (_, Err(stop @ ProofStop::Refused(_)))
        | (Err(stop), Ok(_))
        | (Ok(_), Err(stop)) => Err(stop),
    }
}

/// The answer to the question of a proof.
pub(super) fn verdict(proof: LineageStep<Evidence>) -> LineageVerdict {
    match proof {
        Ok(evidence) => LineageVerdict::Proven(Box::new(evidence)),
        Err(ProofStop::Refused(refusal)) => LineageVerdict::Refused(refusal),
        Err(ProofStop::Waiting(mut missing)) => {
            missing.sort();
            missing.dedup();
            LineageVerdict::Waiting(missing)
        }
    }
}
