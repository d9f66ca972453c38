// SPDX-License-Identifier: MIT OR Apache-2.0
//! What connects a controller, and the points that its driver passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};

/// The transport of a controller, as sysfs names it (`/sys/class/nvme/nvme0/transport`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A PCI function, real, passed through or emulated: `nvme.ko`.
    Pcie,
    /// A fabric (tcp, rdma, fc, loop), or a driver that this tool does not hook.
    Other,
}

/// Most points of a transport, besides setup_out, complete and those before the request: a pattern of
/// the BPF side has 16 bits.
pub const WIRE_POINTS: usize = 13;

/// The points of a transport, by the numbers that they have on the BPF side: of their times in an
/// event, and of their bits in a pattern (`ND_SAW_*` of bpf/include/abi.h). Bits 7 to 9 are
/// [`NO_SETUP`], [`NO_COMPLETE`] and the points before the request of each transport, so the point 7
/// has bit 10. setup_out and complete have no number. Different transports may use a number for
/// different points.
#[derive(Debug)]
pub struct Wire {
    points: [Option<Point>; WIRE_POINTS],
    /// The bits of these points, and those that are the same on each transport.
    all: u16,
    /// The bits that a [`Pattern`] has at another place.
    moved: u16,
    /// The bits that mean what they do on PCIe.
    of_pcie: u16,
    /// The bits of points that the driver does not pass. What the BPF side observes counts even so: the
    /// controller may be new, and its transport not known yet.
    not_passed: u16,
    is_usual: bool,
}

/// The first points of the drivers that are known, by their numbers.
pub const USUAL: [Point; 7] = [
    Point::Start,
    Point::SetupIn,
    Point::Issue,
    Point::Doorbell,
    Point::Irq,
    Point::Cqe,
    Point::End,
];

/// A command with [`Point::Bio`] has all points before the request that the run observes.
const HAS_BEFORE: Pattern = match Point::Bio.pattern_bit() {
    Some(bit) => bit,
    None => panic!("Point::Bio has no bit"),
};

/// Bits that are the same on each transport.
const FLAGS: Pattern = NO_SETUP | NO_COMPLETE | HAS_BEFORE;

/// The bit of the point with this number.
const fn bit(number: usize) -> u16 {
    1 << (if number < 7 { number } else { number + 3 })
}

impl Wire {
    pub(super) const fn new<const N: usize>(first: [Option<Point>; N]) -> Self {
        let mut wire = Self {
            points: [None; WIRE_POINTS],
            all: FLAGS as u16,
            moved: 0,
            of_pcie: 0,
            not_passed: 0,
            is_usual: N >= USUAL.len(),
        };
        let mut n = 0;
        while n < N {
            if n < USUAL.len() {
                wire.is_usual &= matches!(first[n], Some(point) if point as u8 == USUAL[n] as u8);
            }
            if let Some(point) = first[n] {
                let own = point.pattern_bit();
                assert!(own.is_some(), "the point needs no bit");
                assert!(point as u8 >= Point::Start as u8, "the point is before the request");
                if !matches!(own, Some(own) if own == bit(n) as Pattern) {
                    wire.moved |= bit(n);
                }
                if matches!(point.pcie(), Some(number) if number == n) {
                    wire.of_pcie |= bit(n);
                }
                wire.all |= bit(n);
                wire.points[n] = first[n];
            }
            n += 1;
        }
        wire
    }

    /// The same, of a driver that does not pass the points with these numbers.
    const fn without<const N: usize>(mut self, numbers: [usize; N]) -> Self {
        let mut n = 0;
        while n < N {
            self.not_passed |= bit(numbers[n]);
            n += 1;
        }
        self
    }

    /// The pattern that has these bits on the BPF side. Bits without a point are left out.
    #[inline]
    pub fn pattern(&self, bits: u16) -> Pattern {
        let bits = bits & self.all;
        if bits & self.moved == 0 {
            // no bit is at another place in a Pattern
            return bits.into();
        }
        let points = self.points().filter(|(n, _)| bits & bit(*n) != 0);
        let moved = points.filter_map(|(_, point)| point.pattern_bit());
        moved.fold(Pattern::from(bits) & FLAGS, |all, bit| all | bit)
    }

    /// The bits that [`Wire::pattern`] keeps.
    #[inline]
    pub const fn kept(&self) -> u16 {
        self.all & !self.moved
    }

    /// The bits of PCIe's points that this driver passes. Commands wait for a doorbell only if its bit
    /// is set.
    pub const fn bits(&self) -> u32 {
        (self.of_pcie & !self.not_passed) as u32
    }

    /// Whether the first points are [`USUAL`].
    #[inline]
    pub const fn is_usual(&self) -> bool {
        self.is_usual
    }

    /// The point with this number.
    #[inline]
    pub fn point(&self, number: usize) -> Option<Point> {
        self.points.get(number).copied().flatten()
    }

    /// The points with their numbers.
    pub fn points(&self) -> impl Iterator<Item = (usize, Point)> {
        let all = self.points.iter().enumerate();
        all.filter_map(|(n, point)| Some((n, (*point)?)))
    }
}

/// The points of PCIe.
const POINTS: [Option<Point>; WIRE_POINTS] = {
    let (mut points, mut n) = ([None; WIRE_POINTS], 0);
    while n < Point::ALL.len() {
        if let Some(number) = Point::ALL[n].pcie() {
            assert!(points[number].is_none(), "two points have the same number");
            points[number] = Some(Point::ALL[n]);
        }
        n += 1;
    }
    points
};

static PCIE: Wire = Wire::new(POINTS);

/// Points in `nvme_core` and blk-mq: every driver passes them. Doorbell, interrupt and CQE are in
/// functions of `nvme.ko`; the drivers of other transports ring no doorbell.
static OTHER: Wire = Wire::new(POINTS).without([3, 4, 5]);

impl Transport {
    /// All, by their numbers.
    pub(super) const ALL: [Self; 2] = [Self::Pcie, Self::Other];

    /// The bits of points that a transport alone has, by the number of the transport; none for PCIe.
    const OWN: [Pattern; Self::ALL.len()] = {
        let (mut own, mut t) = ([0; Self::ALL.len()], 0);
        while t < own.len() {
            let (points, mut n) = (&Self::ALL[t].wire().points, 0);
            while n < points.len() {
                if let Some(point) = points[n]
                    && let (None, Some(bit)) = (point.pcie(), point.pattern_bit())
                {
                    own[t] |= bit;
                }
                n += 1;
            }
            let mut other = 0;
            while other < t {
                assert!(own[other] & own[t] == 0, "two transports have the same point");
                other += 1;
            }
            t += 1;
        }
        own
    };

    /// The transport that a pattern shows, by a point that no other has; else PCIe.
    pub fn of(pattern: Pattern) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|t| pattern & Self::OWN[*t as usize] != 0).unwrap_or(Self::Pcie)
    }

    /// The point of PCIe that has the number of this one; the point itself if there is none.
    pub const fn usual(point: Point) -> Point {
        let mut t = 0;
        while point.pcie().is_none() && t < Self::ALL.len() {
            let (points, mut n) = (&Self::ALL[t].wire().points, 0);
            while n < points.len() {
                if let (Some(own), Some(usual)) = (points[n], PCIE.points[n])
                    && own as usize == point as usize
                {
                    return usual;
                }
                n += 1;
            }
            t += 1;
        }
        point
    }

    /// The transport with this name.
    pub fn named(name: &str) -> Self {
        match name {
            "pcie" => Self::Pcie,
            _ => Self::Other,
        }
    }

    /// The points that can be observed, with their numbers on the BPF side.
    pub const fn wire(self) -> &'static Wire {
        match self {
            Self::Pcie => &PCIE,
            Self::Other => &OTHER,
        }
    }
}

/// Controllers of a session; their numbers are below this.
const MOST: usize = 256;

/// The transports of the controllers, by their numbers, and the points before the request that the run
/// observes. Both are needed to make a [`Pattern`] of bits of the BPF side. The session sets them; the
/// reader of its events uses them, too.
#[derive(Clone, Debug)]
pub struct Transports {
    of: Arc<[AtomicU8; MOST]>,
    before: Pattern,
}

impl Transports {
    /// Those of a run with these points before the request.
    pub fn new(before: Pattern) -> Self {
        Self { of: Arc::new([const { AtomicU8::new(Transport::Other as u8) }; MOST]), before }
    }

    /// The points before the request: a command has all, or none.
    #[inline]
    pub const fn before(&self) -> Pattern {
        self.before
    }

    /// The pattern of the points of a command that has these bits in its row's key.
    pub fn pattern(&self, ctrl: u32, bits: u16) -> Pattern {
        let pattern = self.wire(ctrl).pattern(bits);
        match pattern & HAS_BEFORE {
            0 => pattern,
            _ => pattern | self.before,
        }
    }

    /// The controller has this transport.
    pub fn set(&self, ctrl: u32, transport: Transport) {
        if let Some(entry) = self.of.get(ctrl as usize) {
            entry.store(transport as u8, Ordering::Relaxed);
        }
    }

    /// The points of a controller.
    #[inline]
    pub fn wire(&self, ctrl: u32) -> &'static Wire {
        let entry = &self.of[ctrl as usize % MOST];
        let number = usize::from(entry.load(Ordering::Relaxed));
        Transport::ALL[number % Transport::ALL.len()].wire()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_pci_has_a_doorbell_an_interrupt_and_a_cqe() {
        let without = |t: Transport| -> Vec<Point> {
            let passes = |p: &Point| p.pcie().is_none_or(|n| t.wire().bits() as u16 & bit(n) != 0);
            Point::ALL.into_iter().filter(|p| !passes(p)).collect()
        };
        assert_eq!(without(Transport::named("pcie")), []);
        let fabrics = [Point::Doorbell, Point::Irq, Point::Cqe];
        for name in ["tcp", "rdma", "fc", "loop", "apple-nvme", ""] {
            assert_eq!(without(Transport::named(name)), fabrics, "{name}");
        }
        assert_eq!(Transport::Pcie.wire().bits(), 0x7f);
        assert_eq!(Transport::Other.wire().bits(), 0b100_0111);
    }

    #[test]
    fn a_point_that_was_observed_counts_before_the_transport_is_known() {
        for bits in 0..1 << 10 {
            let (known, unknown) = (Transport::Pcie.wire(), Transport::named("").wire());
            assert_eq!(unknown.pattern(bits), known.pattern(bits));
        }
    }

    #[test]
    fn every_transport_is_at_its_number() {
        for (n, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(transport as usize, n);
        }
    }

    #[test]
    fn a_controller_has_its_own_transport() {
        let transports = Transports::new(0);
        let seen = transports.clone();
        transports.set(3, Transport::Pcie);
        let bits = [2, 3, 4].map(|n| seen.wire(n).bits());
        assert_eq!(bits, [0x47, 0x7f, 0x47]);
    }

    /// A transport whose bits are not those of a [`Pattern`].
    static MADE_UP: Wire = Wire::new([
        Some(Point::Start),
        None,
        Some(Point::Cqe),
        Some(Point::End),
        None,
        None,
        None,
        None,
        Some(Point::Irq),
        Some(Point::SetupIn),
    ]);

    #[test]
    fn a_bit_of_another_point_is_none_of_pcie() {
        assert_eq!(MADE_UP.bits(), 1);
    }

    #[test]
    fn the_usual_points_are_those_of_all_transports_but_a_made_up_one() {
        assert!(Transport::ALL.into_iter().all(|t| t.wire().is_usual()));
        assert!(!MADE_UP.is_usual());
        assert!(!Wire::new([Some(Point::Start)]).is_usual());
    }

    #[test]
    fn a_command_has_all_points_before_the_request_or_none() {
        let before = [Point::Bio, Point::Freeze, Point::Tag];
        let before = before.iter().filter_map(|p| p.pattern_bit()).sum();
        let run = Transports::new(before);
        assert_eq!(run.pattern(0, 0b11), 0b11);
        assert_eq!(run.pattern(0, HAS_BEFORE as u16 | 0b11), before | 0b11);
    }

    proptest! {
        #[test]
        fn a_bit_of_a_transport_is_its_point(bits: u16) {
            let pattern = MADE_UP.pattern(bits);
            for (n, point) in MADE_UP.points() {
                prop_assert_eq!(point.seen_in(pattern), bits & bit(n) != 0, "{:?}", point);
            }
            let own = MADE_UP.points().filter_map(|(_, p)| p.pattern_bit()).sum::<Pattern>();
            prop_assert_eq!(pattern & !own & !FLAGS, 0);
            prop_assert_eq!(pattern & FLAGS, Pattern::from(bits) & FLAGS);
            prop_assert_eq!(PCIE.pattern(bits), Pattern::from(bits & PCIE.all));
            for wire in Transport::ALL.map(Transport::wire).into_iter().chain([&MADE_UP]) {
                let kept = bits & wire.kept();
                prop_assert_eq!(wire.pattern(kept), Pattern::from(kept));
            }
        }
    }
}
