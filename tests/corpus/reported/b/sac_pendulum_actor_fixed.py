# source: https://github.com/philtabor/Actor-Critic-Methods-Paper-To-Code/issues/7
import torch as T
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions.normal import Normal


class CriticNetwork(nn.Module):
    def __init__(self, beta, input_dims, n_actions, fc_dims=64):
        super().__init__()
        self.fc1 = nn.Linear(input_dims + n_actions, fc_dims)
        self.fc2 = nn.Linear(fc_dims, fc_dims)
        self.q = nn.Linear(fc_dims, 1)
        self.optimizer = optim.Adam(self.parameters(), lr=beta)
        self.device = T.device("cuda:0" if T.cuda.is_available() else "cpu")
        self.to(self.device)

    def forward(self, state, action):
        x = F.relu(self.fc1(T.cat([state, action], dim=1)))
        return self.q(F.relu(self.fc2(x)))


class ActorNetwork(nn.Module):
    def __init__(self, alpha, input_dims, max_action, n_actions, fc_dims=64):
        super().__init__()
        self.max_action = max_action
        self.reparam_noise = 1e-6
        self.fc1 = nn.Linear(input_dims, fc_dims)
        self.fc2 = nn.Linear(fc_dims, fc_dims)
        self.mu = nn.Linear(fc_dims, n_actions)
        self.sigma = nn.Linear(fc_dims, n_actions)
        self.optimizer = optim.Adam(self.parameters(), lr=alpha)
        self.device = T.device("cuda:0" if T.cuda.is_available() else "cpu")
        self.to(self.device)

    def forward(self, state):
        prob = F.relu(self.fc1(state))
        prob = F.relu(self.fc2(prob))
        mu = self.mu(prob)
        sigma = T.clamp(self.sigma(prob), min=self.reparam_noise, max=1)
        return mu, sigma

    def sample_normal(self, state, reparameterize=True):
        mu, sigma = self.forward(state)
        probabilities = Normal(mu, sigma)
        if reparameterize:
            actions = probabilities.rsample()
        else:
            actions = probabilities.sample()
        action = T.tanh(actions) * T.tensor(self.max_action, device=self.device)
        log_probs = probabilities.log_prob(actions)
        log_probs = log_probs - T.log(1 - T.tanh(actions).pow(2) + self.reparam_noise)
        log_probs = log_probs.sum(1, keepdim=True)
        return action, log_probs


class Agent:
    def __init__(self, input_dims=3, n_actions=1, max_action=2.0, gamma=0.99, tau=0.005, scale=2.0):
        self.gamma, self.tau, self.scale = gamma, tau, scale
        self.actor = ActorNetwork(3e-4, input_dims, max_action, n_actions)
        self.critic_1 = CriticNetwork(3e-4, input_dims, n_actions)
        self.critic_2 = CriticNetwork(3e-4, input_dims, n_actions)

    def learn(self, state, action, reward, state_, done):
        with T.no_grad():
            next_actions, next_log_probs = self.actor.sample_normal(state_)
            q_next = T.min(self.critic_1(state_, next_actions), self.critic_2(state_, next_actions))
            target = self.scale * reward + self.gamma * (1 - done) * (q_next - next_log_probs)
        critic_loss = 0.0
        for critic in (self.critic_1, self.critic_2):
            loss = 0.5 * F.mse_loss(critic(state, action), target)
            critic.optimizer.zero_grad()
            loss.backward()
            critic.optimizer.step()
            critic_loss += loss.item()

        actions, log_probs = self.actor.sample_normal(state)
        q = T.min(self.critic_1(state, actions), self.critic_2(state, actions))
        actor_loss = T.mean(log_probs - q)
        self.actor.optimizer.zero_grad()
        actor_loss.backward()
        self.actor.optimizer.step()
        return actor_loss.item(), critic_loss


if __name__ == "__main__":
    T.manual_seed(1)
    agent = Agent()
    dev = agent.actor.device
    for i in range(10):
        angle, speed = 6.28 * T.rand(128, 1, device=dev), 16 * T.rand(128, 1, device=dev) - 8
        s = T.cat([angle.cos(), angle.sin(), speed], dim=1)
        a = 4 * T.rand(128, 1, device=dev) - 2
        r, d = -(1 - s[:, :1]) - 0.1 * speed.pow(2), T.zeros(128, 1, device=dev)
        print(i, "actor %.3f critic %.3f" % agent.learn(s, a, r, s + 0.05 * a, d))
