// Command linear judges histories of scaling, read as JSON, by porcupine.
//
// Each history is of one task: its first count, its bounds, and operations with the moments of
// their first invocation and of their last answer. One without an answer may take effect at any
// time after its invocation, or never.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Client int   `json:"client"`
	Call   int64 `json:"call"`
	Return int64 `json:"return"`
	// "add" by Delta, or "read".
	Kind  string `json:"kind"`
	Delta int    `json:"delta"`
	// "set" to Value, "refused" as out of bounds, or "unknown".
	Answer string `json:"answer"`
	Value  int    `json:"value"`
}

type history struct {
	First      int         `json:"first"`
	Least      int         `json:"least"`
	Most       int         `json:"most"`
	Operations []operation `json:"operations"`
}

// step says whether the operation may have its answer from that count, and the count after it.
func (h history) step(state, input, _ any) (bool, any) {
	count, op := state.(int), input.(operation)
	if op.Kind == "read" {
		return op.Value == count, count
	}
	next := count + op.Delta
	inBounds := h.Least <= next && next <= h.Most
	switch op.Answer {
	case "set":
		return inBounds && op.Value == next, next
	case "refused":
		return !inBounds, count
	default:
		if inBounds {
			return true, next
		}
		return true, count
	}
}

func (h history) verdict(patience time.Duration) string {
	model := porcupine.Model{
		Init:              func() any { return h.First },
		Step:              h.step,
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
	operations := make([]porcupine.Operation, len(h.Operations))
	for i, op := range h.Operations {
		end := op.Return
		if op.Answer == "unknown" {
			end = math.MaxInt64
		}
		operations[i] = porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end}
	}
	return string(porcupine.CheckOperationsTimeout(model, operations, patience))
}

func main() {
	var histories map[string]history
	if err := json.NewDecoder(os.Stdin).Decode(&histories); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	patience, err := time.ParseDuration(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	verdicts := map[string]string{}
	for name, each := range histories {
		verdicts[name] = each.verdict(patience)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
