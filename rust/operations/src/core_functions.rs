//! The functions that another engine calls by name, where it has none with Spark's results.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use deltaplane_error::{Error, Result};

use crate::decimals::{Operator, decimal_results};
use crate::strict_math::{Function, math_results};

/// Batches with one column, and their schema.
pub type Values = (SchemaRef, Box<dyn Iterator<Item = Result<RecordBatch>> + Send>);

/// The values of a function for rows of its arguments.
///
/// `strict_` and the name of a [`Function`]: a mathematical function of doubles. `decimal_`, the
/// name of an [`Operator`], and the precisions and scales of its operands and its result, such as
/// `decimal_add_10_2_20_4_38_6`: an operator of two decimals.
///
/// # Errors
/// `InvalidArgument` for any other name, and for columns that the function doesn't take.
pub fn function_values<R>(rows: R, name: &str) -> Result<Values>
where
    R: Iterator<Item = Result<RecordBatch>> + Send + 'static,
{
    if let Some(function) = name.strip_prefix("strict_").and_then(Function::of) {
        let (schema, values) = math_results(rows, function);
        return Ok((schema, Box::new(values)));
    }
    if let Some((operator, precision, scale)) = decimal_operator(name) {
        let (schema, values) = decimal_results(rows, operator, precision, scale)?;
        return Ok((schema, Box::new(values)));
    }
    Err(Error::invalid_argument(format!("no function of the core: {name}")))
}

fn decimal_operator(name: &str) -> Option<(Operator, u8, i8)> {
    let parts: Vec<&str> = name.strip_prefix("decimal_")?.split('_').collect();
    let [operator, _, _, _, _, precision, scale] = parts.as_slice() else {
        return None;
    };
    Some((Operator::of(operator)?, precision.parse().ok()?, scale.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_say_the_function_and_the_type_of_its_result() {
        assert_eq!(
            decimal_operator("decimal_add_10_2_20_4_38_6"),
            Some((Operator::Add, 38, 6))
        );
        for name in ["strict_exp", "strict_log_of", "decimal_divide_1_0_1_0_38_6"] {
            let values = function_values(std::iter::empty(), name);
            assert_eq!(values.unwrap().0.fields().len(), 1, "{name}");
        }
        for name in [
            "strict_sin",
            "decimal_add_10_2",
            "decimal_modulo_1_0_1_0_1_0",
            "exp",
            "",
        ] {
            let error = function_values(std::iter::empty(), name).err().unwrap();
            assert!(error.to_string().contains("no function of the core"), "{name}");
        }
    }
}
