package millrace

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

type schema struct {
	Properties map[string]schema `json:"properties"`
	OneOf      []schema          `json:"oneOf"`
	Const      string            `json:"const"`
}

type description struct {
	Methods []struct {
		Name string `json:"name"`
	} `json:"methods"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
		Errors  map[string]struct {
			Code Code `json:"code"`
		} `json:"errors"`
	} `json:"components"`
}

// described returns the description of the API that the program prints.
func described(t *testing.T) description {
	out, err := exec.Command(program(t), "schema", "--api").Output()
	if err != nil {
		t.Fatal(err)
	}
	var api description
	if err = json.Unmarshal(out, &api); err != nil {
		t.Fatal(err)
	}
	return api
}

// fields returns the names that the fields of a type have in JSON.
func fields(value any) map[string]bool {
	names, kind := map[string]bool{}, reflect.TypeOf(value)
	for i := 0; i < kind.NumField(); i++ {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}

func TestTypesHaveTheFieldsOfTheAPI(t *testing.T) {
	api := described(t)
	types := map[string]any{
		"Version": Version{}, "Change": Change{}, "ReloadAction": Action{}, "PortState": PortState{},
		"PortSummary": PortSummary{}, "RecordingStats": Recording{}, "OffloadStats": Offloads{}, "MacEntry": Address{},
		"ReloadReport": ReloadReport{}, "Mended": Mended{},
	}
	for name, value := range types {
		schema, own := api.Components.Schemas[name], fields(value)
		if len(schema.Properties) != len(own) {
			t.Errorf("%s: %v in Go, and %v in the API", name, own, schema.Properties)
		}
		for property := range schema.Properties {
			if !own[property] {
				t.Errorf("%s has no field for %q", name, property)
			}
		}
	}
	codes := []Code{Refused, OwnedByFile, Differs, Invalid, InUse, Absent, NotKept, Reopens, NotApplied}
	known := map[Code]bool{}
	for _, code := range codes {
		known[code] = true
	}
	for name, failure := range api.Components.Errors {
		if !known[failure.Code] {
			t.Errorf("%s has no constant", name)
		}
	}
	if len(api.Components.Errors) != len(codes) {
		t.Error(api.Components.Errors)
	}
}

func TestEventsHaveTheNamesOfTheAPI(t *testing.T) {
	names := []EventName{
		Started, PortUp, PortDown, GuestConnected, GuestDisconnected, MappingChanged, MappingRemoved, Reloaded, ReloadFailed,
		PartAdded, PartChanged, PartRemoved, WorkerHung, WorkerRecovered, AddressLearned, AddressMoved, AddressForgotten, Lost,
	}
	known := map[string]bool{}
	for _, name := range names {
		known[string(name)] = true
	}
	schema, own := described(t).Components.Schemas["Event"], fields(Event{})
	if len(schema.OneOf) != len(names) {
		t.Errorf("%d events in the API, and %d in Go", len(schema.OneOf), len(names))
	}
	for _, event := range append(schema.OneOf, schema) {
		if name := event.Properties["event"].Const; name != "" && !known[name] {
			t.Errorf("%q has no constant", name)
		}
		for property := range event.Properties {
			if !own[property] {
				t.Errorf("Event has no field for %q", property)
			}
		}
	}
}
