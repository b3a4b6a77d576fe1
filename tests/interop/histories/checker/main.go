// Judges a history of operations on one table with porcupine: whether some order of the operations,
// in which each takes effect at one instant between its call and its return, explains every result.
//
// Reads operations from standard input, one JSON object a line, and prints the verdict: `Ok`,
// `Illegal`, or `Unknown` if the time was not enough. The exit code is 0 for `Ok` only.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const longest = 60 * time.Second

// An operation as it was recorded. Times are nanoseconds of one clock.
type operation struct {
	Client int    `json:"client"`
	Kind   string `json:"kind"` // append, delete or read
	Key    int64  `json:"key"`
	Call   int64  `json:"call"`
	// Missing if the outcome is unknown: the operation may take effect at any later time, or never.
	Return *int64 `json:"return"`
	// The version that the operation made or read, where the engine tells it.
	Version *int64 `json:"version"`
	// Of a deletion: whether it found the row.
	Found bool `json:"found"`
	// Of a reading: all rows of the table.
	Rows []int64 `json:"rows"`
}

// A table: its newest version, as far as operations told it, and its rows in order.
type table struct {
	version int64
	rows    string
}

func text(rows []int64) string {
	parts := make([]string, len(rows))
	for i, row := range rows {
		parts[i] = strconv.FormatInt(row, 10)
	}
	return strings.Join(parts, ",")
}

func numbers(rows string) []int64 {
	if rows == "" {
		return nil
	}
	parts := strings.Split(rows, ",")
	result := make([]int64, len(parts))
	for i, part := range parts {
		result[i], _ = strconv.ParseInt(part, 10, 64)
	}
	return result
}

// The table after an operation, and whether its result is right.
func step(before table, op operation) (bool, table) {
	after := before
	writes := false
	switch op.Kind {
	case "append":
		rows := numbers(before.rows)
		place, present := slices.BinarySearch(rows, op.Key)
		if present {
			return false, before
		}
		after.rows, writes = text(slices.Insert(rows, place, op.Key)), true
	case "delete":
		rows := numbers(before.rows)
		place, present := slices.BinarySearch(rows, op.Key)
		if op.Return != nil && present != op.Found {
			return false, before
		}
		if present {
			after.rows, writes = text(slices.Delete(rows, place, place+1)), true
		}
	case "read":
		if before.rows != text(op.Rows) {
			return false, before
		}
	}
	if op.Version != nil {
		// Versions never go back, and each write makes a new one.
		if *op.Version < before.version || (writes && *op.Version == before.version) {
			return false, before
		}
		after.version = *op.Version
	}
	return true, after
}

var model = porcupine.Model{
	Init: func() interface{} { return table{version: -1} },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		return step(state.(table), input.(operation))
	},
}

func main() {
	var history []porcupine.Operation
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			fmt.Fprintln(os.Stderr, "not an operation:", err)
			os.Exit(2)
		}
		if !slices.Contains([]string{"append", "delete", "read"}, op.Kind) {
			fmt.Fprintln(os.Stderr, "not a kind of operation:", op.Kind)
			os.Exit(2)
		}
		if op.Kind == "read" && op.Return == nil {
			continue
		}
		slices.Sort(op.Rows)
		ended := int64(math.MaxInt64)
		if op.Return != nil {
			ended = *op.Return
		}
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: ended})
	}
	if err := lines.Err(); err != nil || len(history) == 0 {
		fmt.Fprintln(os.Stderr, "no history:", err)
		os.Exit(2)
	}
	verdict := porcupine.CheckOperationsTimeout(model, history, longest)
	fmt.Println(verdict)
	if verdict != porcupine.Ok {
		os.Exit(1)
	}
}
