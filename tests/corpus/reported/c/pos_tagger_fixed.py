# source: https://github.com/bentrevett/pytorch-pos-tagging/pull/5
import torch
import torch.nn as nn
import torch.optim as optim

SENTENCES = [
    ("the dog barks", "DET NOUN VERB"),
    ("a small cat sleeps quietly", "DET ADJ NOUN VERB ADV"),
    ("she reads the long book", "PRON VERB DET ADJ NOUN"),
    ("they run", "PRON VERB"),
    ("the old man walks slowly", "DET ADJ NOUN VERB ADV"),
    ("dogs chase cats", "NOUN VERB NOUN"),
]


def build_vocab(columns, specials):
    vocab = {tok: i for i, tok in enumerate(specials)}
    for column in columns:
        for tok in column.split():
            vocab.setdefault(tok, len(vocab))
    return vocab


def batches(examples, text_vocab, tag_vocab, batch_size, device):
    for start in range(0, len(examples), batch_size):
        chunk = examples[start:start + batch_size]
        longest = max(len(words.split()) for words, _ in chunk)
        text = torch.zeros(longest, len(chunk), dtype=torch.long)
        tags = torch.zeros(longest, len(chunk), dtype=torch.long)
        for j, (words, labels) in enumerate(chunk):
            for i, (w, t) in enumerate(zip(words.split(), labels.split())):
                text[i, j] = text_vocab[w]
                tags[i, j] = tag_vocab[t]
        yield text.to(device), tags.to(device)


class BiLSTMPOSTagger(nn.Module):
    def __init__(self, input_dim, embedding_dim, hidden_dim, output_dim, dropout, pad_idx):
        super().__init__()
        self.embedding = nn.Embedding(input_dim, embedding_dim, padding_idx=pad_idx)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, bidirectional=True)
        self.fc = nn.Linear(hidden_dim * 2, output_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, text):
        embedded = self.dropout(self.embedding(text))
        outputs, _ = self.lstm(embedded)
        return self.fc(self.dropout(outputs))


def categorical_accuracy(preds, y, tag_pad_idx):
    """Accuracy per batch over the positions that are not padding."""
    max_preds = preds.argmax(dim=1, keepdim=True)
    non_pad_elements = (y != tag_pad_idx).nonzero()
    correct = max_preds[non_pad_elements].squeeze(1).eq(y[non_pad_elements])
    return correct.sum() / torch.FloatTensor([y[non_pad_elements].shape[0]]).to(y.device)


def train(model, data, optimizer, criterion, tag_pad_idx):
    epoch_loss, epoch_acc, n = 0.0, 0.0, 0
    model.train()
    for text, tags in data:
        optimizer.zero_grad()
        predictions = model(text)
        predictions = predictions.view(-1, predictions.shape[-1])
        tags = tags.view(-1)
        loss = criterion(predictions, tags)
        acc = categorical_accuracy(predictions, tags, tag_pad_idx)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
        epoch_acc += acc.item()
        n += 1
    return epoch_loss / n, epoch_acc / n


def main():
    torch.manual_seed(1234)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text_vocab = build_vocab([w for w, _ in SENTENCES], ["<pad>", "<unk>"])
    tag_vocab = build_vocab([t for _, t in SENTENCES], ["<pad>"])
    model = BiLSTMPOSTagger(len(text_vocab), 16, 16, len(tag_vocab), 0.1, text_vocab["<pad>"]).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=tag_vocab["<pad>"]).to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(8):
        data = batches(SENTENCES, text_vocab, tag_vocab, 3, device)
        loss, acc = train(model, data, optimizer, criterion, tag_vocab["<pad>"])
        print(f"Epoch {epoch + 1:02} | loss {loss:.3f} | acc {acc * 100:.1f}%")


if __name__ == "__main__":
    main()
