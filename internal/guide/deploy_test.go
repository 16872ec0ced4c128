package guide

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"pgkinetic/configs"
)

const deploy page = "../../docs/deploy.md"

// manifest is what matters here of one for Kubernetes.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Ports []struct {
						ContainerPort string `yaml:"containerPort"`
					}
					LivenessProbe struct {
						HTTPGet struct{ Path string } `yaml:"httpGet"`
					} `yaml:"livenessProbe"`
					ReadinessProbe struct {
						HTTPGet struct{ Path string } `yaml:"httpGet"`
					} `yaml:"readinessProbe"`
					Lifecycle struct {
						PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
					}
					VolumeMounts []struct {
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
			}
		}
	}
}

// The settings of the guide's ConfigMap are valid, and the Deployment fits them.
func TestDeployOnKubernetes(t *testing.T) {
	decoder := yaml.NewDecoder(strings.NewReader(deploy.block(t, "yaml", "kind: Deployment")))
	byKind := map[string]manifest{}
	for {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		byKind[m.Kind] = m
	}
	pod := byKind["Deployment"].Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%+v", byKind)
	}
	container := pod.Containers[0]
	dir := t.TempDir()
	users := filepath.Join(dir, "users.txt")
	text := byKind["ConfigMap"].Data["pg-kinetic.yaml"]
	mounted := strings.Replace(text, "/run/secrets/pg-kinetic/users.txt", users, 1)
	path := filepath.Join(dir, "pg-kinetic.yaml")
	for name, content := range map[string]string{users: "\"app\" \"secret\"\n", path: mounted} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, origins, problems := configs.Load(path, nil, nil)
	if len(problems) > 0 || mounted == text {
		t.Fatalf("%v", problems)
	}
	problems = append(configs.Incomplete(cfg, origins), configs.Warnings(cfg, origins, 0)...)
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "admin.listen") { // which the page tells
		t.Errorf("%v", problems)
	}
	listens := []string{":" + container.Ports[0].ContainerPort, ":" + container.Ports[1].ContainerPort}
	if cfg.Server.Listen[0] != listens[0] || cfg.Admin.Listen != listens[1] || !cfg.Reload.Watch {
		t.Errorf("the container has the ports %v, the settings %v and %s", listens, cfg.Server.Listen, cfg.Admin.Listen)
	}
	grace := time.Duration(pod.TerminationGracePeriodSeconds-container.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if drain := time.Duration(cfg.Drain.TimeoutMs) * time.Millisecond; grace < drain+5*time.Second {
		t.Errorf("%v are left of the grace period, the drain takes %v", grace, drain)
	}
	if container.LivenessProbe.HTTPGet.Path != "/livez" || container.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("probes %+v, %+v", container.LivenessProbe, container.ReadinessProbe)
	}
	for i, file := range []string{"/etc/pg-kinetic/pg-kinetic.yaml", "/run/secrets/pg-kinetic/users.txt"} {
		if container.VolumeMounts[i].MountPath != filepath.Dir(file) || !strings.Contains(deploy.text(t), file) {
			t.Errorf("%s is not mounted: %+v", file, container.VolumeMounts)
		}
	}
}
