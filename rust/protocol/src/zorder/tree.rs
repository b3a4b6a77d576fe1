//! A tree that divides the rows into one box per file, all with about the same number of rows: each
//! cut divides a box along its longest side. Boxes are disjoint, so a value of one column is in few
//! of them.

/// A tree of cuts.
pub(super) enum Tree {
    /// The number of boxes before it.
    Leaf(u32),
    /// Rows whose rank in the column is below the cut go left.
    Cut {
        column: usize,
        rank: u32,
        below: Box<Tree>,
        above: Box<Tree>,
    },
}

/// The sampled rows' ranks, while they are divided.
struct Sampled<'a> {
    cells: &'a [u32],
    columns: usize,
}

impl Sampled<'_> {
    fn place(&self, row: u32, column: usize) -> u32 {
        let cell = row as usize * self.columns + column;
        self.cells.get(cell).copied().unwrap_or_default()
    }
}

/// A box, and the number of parts to cut it into.
struct Piece {
    sides: Vec<(u32, u32)>,
    files: u64,
}

impl Tree {
    /// A tree with one leaf per file, as far as the sample's ranks differ. `cells` are ranks row by
    /// row.
    pub(super) fn balanced(cells: &[u32], bits: u32, columns: usize, files: u64) -> Tree {
        let rows = u32::try_from(cells.len() / columns.max(1)).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..rows).collect();
        let piece = Piece {
            sides: vec![(0, 1 << bits); columns],
            files: files.clamp(1, u64::from(u32::MAX)),
        };
        grow(&Sampled { cells, columns }, &mut order, &piece, &mut 0)
    }

    /// The number of the box with this cell.
    pub(super) fn leaf(&self, cell: &[u32]) -> u32 {
        let mut here = self;
        loop {
            match here {
                Tree::Leaf(number) => return *number,
                Tree::Cut {
                    column,
                    rank,
                    below,
                    above,
                } => {
                    let place = cell.get(*column).copied().unwrap_or_default();
                    here = if place < *rank { below } else { above };
                }
            }
        }
    }
}

fn grow(sample: &Sampled<'_>, rows: &mut [u32], piece: &Piece, leaves: &mut u32) -> Tree {
    // The longest side first; the others if all rows have one rank on it.
    let mut columns: Vec<usize> = (0..sample.columns).collect();
    let length = |column: usize| piece.sides.get(column).map_or(0, |(low, high)| high - low);
    columns.sort_by_key(|column| std::cmp::Reverse(length(*column)));
    if piece.files > 1 {
        for column in columns {
            if let Some(tree) = cut(sample, rows, piece, column, leaves) {
                return tree;
            }
        }
    }
    *leaves += 1;
    Tree::Leaf(*leaves - 1)
}

fn cut(sample: &Sampled<'_>, rows: &mut [u32], piece: &Piece, column: usize, leaves: &mut u32) -> Option<Tree> {
    rows.sort_unstable_by_key(|row| sample.place(*row, column));
    let place = |index: usize| rows.get(index).map(|row| sample.place(*row, column));
    let all = rows.len() as u128;
    let (half, files) = (u128::from(piece.files / 2), u128::from(piece.files));
    let middle = usize::try_from(half * all / files).ok()?;
    // A cut is between two ranks: the one closer to the wanted share.
    let wanted = place(middle)?;
    let start = rows.partition_point(|row| sample.place(*row, column) < wanted);
    let end = rows.partition_point(|row| sample.place(*row, column) <= wanted);
    let split = match (start, end) {
        (0, end) if end == rows.len() => return None,
        (0, end) => end,
        (start, end) if end == rows.len() || middle - start <= end - middle => start,
        (_, end) => end,
    };
    let rank = place(split)?;
    // The closest share: frequent ranks move the cut.
    let below_files = u64::try_from((split as u128 * files + all / 2) / all).ok()?;
    let below_files = below_files.clamp(1, piece.files - 1);
    let (below, above) = rows.split_at_mut_checked(split)?;
    let side = |low: bool| {
        let mut sides = piece.sides.clone();
        if let Some(side) = sides.get_mut(column) {
            *side = if low { (side.0, rank) } else { (rank, side.1) };
        }
        sides
    };
    let below_piece = Piece {
        sides: side(true),
        files: below_files,
    };
    let above_piece = Piece {
        sides: side(false),
        files: piece.files - below_files,
    };
    Some(Tree::Cut {
        column,
        rank,
        below: Box::new(grow(sample, below, &below_piece, leaves)),
        above: Box::new(grow(sample, above, &above_piece, leaves)),
    })
}
