//! Space-filling curves: the position of a grid cell along a curve, so that cells close on the
//! curve are close in every direction. A position is one number with `bits` bits per direction.
//! Pure; the caller computes the grid coordinates.

/// The most bits of all coordinates of a cell together.
pub const MOST_BITS: u32 = u128::BITS;

/// The position on the Z-order curve: interleaves the coordinates' bits, the highest first.
///
/// All coordinates must have the same number of bits, the first of which are the highest of the
/// value: the bits of a shorter coordinate would count only after those of the others.
pub fn z_order(places: impl Iterator<Item = u32> + Clone, bits: u32) -> u128 {
    let mut key = 0;
    for bit in (0..bits).rev() {
        for place in places.clone() {
            key = (key << 1) | u128::from((place >> bit) & 1);
        }
    }
    key
}

/// The position on the Hilbert curve, whose neighbours are also neighbours in the grid. Overwrites
/// the coordinates.
///
/// As in J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004):
/// transforms the coordinates into the transposed bits of the index, without a table, for any
/// number of directions.
pub fn hilbert(places: &mut [u32], bits: u32) -> u128 {
    unwind(places, bits);
    gray(places, bits);
    z_order(places.iter().copied(), bits)
}

/// Reverts the rotations and reflections of the curve's parts, the largest first.
fn unwind(places: &mut [u32], bits: u32) {
    for bit in (1..bits).rev() {
        let (side, below) = (1 << bit, (1 << bit) - 1);
        for index in 0..places.len() {
            let Some(place) = places.get(index).copied() else { break };
            let Some(first) = places.first_mut() else { break };
            if place & side != 0 {
                *first ^= below;
                continue;
            }
            let swapped = (*first ^ place) & below;
            *first ^= swapped;
            if let Some(place) = places.get_mut(index) {
                *place ^= swapped;
            }
        }
    }
}

/// The Gray code of the remaining bits.
fn gray(places: &mut [u32], bits: u32) {
    let mut before = 0;
    for place in places.iter_mut() {
        *place ^= before;
        before = *place;
    }
    let mut turned = 0;
    for bit in (1..bits).rev() {
        if before & (1 << bit) != 0 {
            turned ^= (1 << bit) - 1;
        }
    }
    places.iter_mut().for_each(|place| *place ^= turned);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn cells(directions: usize, bits: u32) -> Vec<Vec<u32>> {
        let all = 1_u32 << (bits * u32::try_from(directions).unwrap());
        let cell = |n: u32| (0..directions).map(move |d| (n >> (bits * u32::try_from(d).unwrap())) & ((1 << bits) - 1));
        (0..all).map(|n| cell(n).collect()).collect()
    }

    #[test]
    fn the_highest_bits_decide_first_and_the_first_direction_among_them() {
        assert_eq!(z_order([0b10, 0b01].into_iter(), 2), 0b1001);
        assert_eq!(z_order([0xffff, 0].into_iter(), 16) >> 30, 0b10);
        assert_eq!(z_order([u32::MAX; 4].into_iter(), 32), u128::MAX);
    }

    #[test]
    fn both_curves_visit_each_cell_once() {
        for (directions, bits) in [(1, 5), (2, 4), (3, 3), (4, 2), (5, 2)] {
            let all = cells(directions, bits);
            let orders: [fn(&[u32], u32) -> u128; 2] =
                [|c, b| z_order(c.iter().copied(), b), |c, b| hilbert(&mut c.to_vec(), b)];
            for order in orders {
                let mut keys: Vec<u128> = all.iter().map(|c| order(c, bits)).collect();
                keys.sort_unstable();
                assert!(keys.iter().copied().eq(0..all.len() as u128));
            }
        }
    }

    #[test]
    fn steps_of_the_hilbert_curve_go_to_a_neighbour() {
        for (directions, bits) in [(1, 6), (2, 5), (3, 3), (4, 3), (5, 2)] {
            let mut all = cells(directions, bits);
            all.sort_by_key(|c| hilbert(&mut c.clone(), bits));
            for pair in all.windows(2) {
                let far: u32 = pair[0].iter().zip(&pair[1]).map(|(a, b)| a.abs_diff(*b)).sum();
                assert_eq!(far, 1, "{pair:?} of {directions} directions with {bits} bits");
            }
        }
    }
}
