//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// kubernetesFields are the fields that the examples for Kubernetes use, by their paths in its API. A pod is that of a
// CronJob or of a Deployment.
var kubernetesFields = strings.Fields(`
	apiVersion kind metadata.name
	spec.schedule spec.timeZone spec.startingDeadlineSeconds spec.concurrencyPolicy spec.jobTemplate.spec.backoffLimit
	spec.replicas spec.selector.matchLabels.app
	POD.metadata.labels.app POD.spec.restartPolicy POD.spec.terminationGracePeriodSeconds POD.spec.automountServiceAccountToken
	POD.spec.securityContext.runAsNonRoot POD.spec.securityContext.runAsUser POD.spec.securityContext.runAsGroup
	POD.spec.securityContext.fsGroup POD.spec.securityContext.seccompProfile.type
	POD.spec.containers.name POD.spec.containers.image POD.spec.containers.command
	POD.spec.containers.env.name POD.spec.containers.env.value
	POD.spec.containers.readinessProbe.exec.command POD.spec.containers.readinessProbe.periodSeconds
	POD.spec.containers.readinessProbe.timeoutSeconds
	POD.spec.containers.resources.requests.cpu POD.spec.containers.resources.requests.memory
	POD.spec.containers.securityContext.allowPrivilegeEscalation POD.spec.containers.securityContext.readOnlyRootFilesystem
	POD.spec.containers.securityContext.capabilities.drop
	POD.spec.containers.volumeMounts.name POD.spec.containers.volumeMounts.mountPath POD.spec.containers.volumeMounts.readOnly
	POD.spec.volumes.name POD.spec.volumes.secret.secretName POD.spec.volumes.secret.defaultMode
`)

// kubernetesNeeds are the fields without which Kubernetes refuses an object, by its apiVersion and kind.
var kubernetesNeeds = map[string][]string{
	"batch/v1 CronJob":   {"metadata.name", "spec.schedule", "POD.spec.restartPolicy", "POD.spec.containers.name"},
	"apps/v1 Deployment": {"metadata.name", "spec.selector.matchLabels.app", "POD.metadata.labels.app", "POD.spec.containers.name"},
}

// Promise: the examples for Kubernetes have fields that exist, names that fit each other, and commands that interlock
// accepts.
func TestTheExamplesForKubernetes(t *testing.T) {
	t.Parallel()
	d := newDocumented(t)
	files, err := filepath.Glob(documents + "kubernetes/*.yaml")
	must(err)
	if len(files) != 2 {
		t.Fatalf("files: %q", files)
	}
	for _, file := range files {
		text := readDocument(t, file)
		for _, fault := range d.ofText(file, text) {
			t.Errorf("%s: %s", file, fault)
		}
		var document yaml.Node
		must(yaml.Unmarshal([]byte(text), &document))
		fields := map[string][]string{}
		var walk func(path string, n *yaml.Node)
		walk = func(path string, n *yaml.Node) {
			switch n.Kind {
			case yaml.MappingNode:
				for i := 0; i < len(n.Content); i += 2 {
					at := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
					if at == "spec.template" || at == "spec.jobTemplate.spec.template" {
						at = "POD"
					}
					walk(at, n.Content[i+1])
				}
				return
			case yaml.SequenceNode:
				for _, c := range n.Content {
					walk(path, c)
				}
				return
			}
			fields[path] = append(fields[path], n.Value)
			if !slices.Contains(kubernetesFields, path) {
				t.Errorf("%s:%d: Kubernetes does not have the field %s, or it is not in kubernetesFields", file, n.Line, path)
			}
		}
		walk("", document.Content[0])

		needs := kubernetesNeeds[strings.Join(append(fields["apiVersion"], fields["kind"]...), " ")]
		if needs == nil {
			t.Errorf("%s: %q %q is not in kubernetesNeeds", file, fields["apiVersion"], fields["kind"])
		}
		for _, need := range needs {
			if fields[need] == nil {
				t.Errorf("%s: the field %s is missing", file, need)
			}
		}
		for _, of := range []string{"command", "readinessProbe.exec.command"} {
			words := fields["POD.spec.containers."+of]
			if len(words) == 0 && of != "command" {
				continue
			}
			if len(words) < 2 || words[0] != "interlock" {
				t.Errorf("%s: %s is %q", file, of, words)
			} else if err := parseCommand(words[1:], false); err != nil {
				t.Errorf("%s: %q: %v", file, words, err)
			}
		}
		for _, same := range [][2][]string{
			{fields["POD.spec.containers.env.value"], {fields["POD.spec.containers.volumeMounts.mountPath"][0] + "/url"}},
			{fields["POD.spec.containers.volumeMounts.name"], fields["POD.spec.volumes.name"]},
			{fields["POD.spec.volumes.secret.secretName"], {"interlock-url"}},
		} {
			if !slices.Equal(same[0], same[1]) {
				t.Errorf("%s: %q and %q do not fit", file, same[0], same[1])
			}
		}
		if got := fields["spec.selector.matchLabels.app"]; got != nil && !slices.Equal(got, fields["POD.metadata.labels.app"]) {
			t.Errorf("%s: the selector %q does not find its pods", file, got)
		}
	}
}
