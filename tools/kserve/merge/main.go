// Command merge prints what KServe makes of services: each merged with the preset that KServe chooses for it, and with
// the template of the preset filled in, by KServe's own code.
//
// Standard input is a JSON object: `presets` by name, and `services`, each with whether TLS is on. The output is the
// list of the merged specs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/kserve/kserve/pkg/apis/serving/v1alpha2"
	"github.com/kserve/kserve/pkg/controller/v1alpha2/llmisvc"
)

type input struct {
	Presets  map[string]v1alpha2.LLMInferenceServiceConfig `json:"presets"`
	Services []struct {
		TLS     bool                         `json:"tls"`
		Service v1alpha2.LLMInferenceService `json:"service"`
	} `json:"services"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	out := []v1alpha2.LLMInferenceServiceSpec{}
	for _, given := range in.Services {
		service := given.Service
		preset, known := in.Presets[choose(service.Spec)]
		if !known {
			return fmt.Errorf("no preset %q", choose(service.Spec))
		}
		merged, err := llmisvc.MergeSpecs(context.Background(), preset.Spec, service.Spec)
		if err != nil {
			return err
		}
		config := &v1alpha2.LLMInferenceServiceConfig{ObjectMeta: service.ObjectMeta, Spec: merged}
		filled, err := llmisvc.ReplaceVariables(&service, config, &llmisvc.Config{EnableTLS: given.TLS})
		if err != nil {
			return err
		}
		out = append(out, filled.Spec)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// choose repeats a part of KServe's combineBaseRefsConfig, which needs a cluster.
func choose(spec v1alpha2.LLMInferenceServiceSpec) string {
	switch {
	case spec.Worker == nil:
		return "kserve-config-llm-template"
	case spec.Parallelism.IsDataParallel():
		return "kserve-config-llm-worker-data-parallel"
	default:
		return "kserve-config-llm-worker-pipeline-parallel"
	}
}
